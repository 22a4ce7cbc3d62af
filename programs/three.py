"""Threads that share one interpreter lock; the main thread only waits for them."""
import sys
import threading
import time

count = int(sys.argv[1])
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
done = [0] * count
end = time.monotonic() + seconds


def work(me):
    while time.monotonic() < end:
        total = 0
        for number in range(2000):
            total += number * number
        done[me] += 1


threads = [threading.Thread(target=work, args=(me,)) for me in range(count)]
begun = time.monotonic()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"throughput: {sum(done) / (time.monotonic() - begun):.1f} ops/s")
