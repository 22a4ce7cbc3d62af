// Goroutines that share one account book: usage: mutex GOROUTINES SECONDS
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type ledger struct {
	mu    sync.Mutex
	lines map[uint64]uint64
}

func mix(x uint64, rounds int) uint64 {
	for i := 0; i < rounds; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func (l *ledger) post(key uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[key%1024] = mix(key, 12000)
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.Atoi(os.Args[2])
	book := &ledger{lines: map[uint64]uint64{}}
	var done atomic.Uint64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := 0; i < n; i++ {
		wg.Add(1)
		go func(key uint64) {
			defer wg.Done()
			for !stop.Load() {
				key = mix(key+1, 3000)
				book.post(key)
				done.Add(1)
			}
		}(uint64(i + 1))
	}
	begin := time.Now()
	time.Sleep(time.Duration(seconds) * time.Second)
	stop.Store(true)
	wg.Wait()
	fmt.Printf("%.1f operations/s\n", float64(done.Load())/time.Since(begin).Seconds())
}
