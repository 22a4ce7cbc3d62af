// Threads that share one account book: usage: Monitor THREADS SECONDS
import java.util.HashMap;
import java.util.concurrent.atomic.LongAdder;

public class Monitor {
    static final class Book {
        private final HashMap<Long, Long> lines = new HashMap<>();
        synchronized void post(long key) { lines.put(key & 1023, mix(key, 12000)); }
    }
    static long mix(long x, int rounds) {
        for (int i = 0; i < rounds; i++) { x ^= x << 13; x ^= x >>> 7; x ^= x << 17; }
        return x;
    }
    static volatile boolean stop;
    public static void main(String[] a) throws Exception {
        int n = Integer.parseInt(a[0]); int seconds = Integer.parseInt(a[1]);
        Book book = new Book(); LongAdder done = new LongAdder();
        Thread[] all = new Thread[n];
        for (int i = 0; i < n; i++) {
            long first = i + 1;
            all[i] = new Thread(() -> {
                long key = first;
                while (!stop) { key = mix(key + 1, 3000); book.post(key); done.increment(); }
            }, "teller-" + i);
            all[i].start();
        }
        Thread.sleep(1000);
        long before = done.sum(), t = System.nanoTime();
        Thread.sleep(seconds * 1000L);
        double rate = (done.sum() - before) * 1e9 / (System.nanoTime() - t);
        stop = true;
        for (Thread it : all) it.join();
        System.out.printf("%.1f operations/s%n", rate);
    }
}
