#!/usr/bin/env python3
"""Threads that compute in Python alone, and so take turns at the interpreter lock."""
import sys
import threading
import time


def step():
    total = 0
    for number in range(2000):
        total += number * number
    return total


def client(until, counts, index):
    done = 0
    while time.monotonic() < until:
        step()
        done += 1
    counts[index] = done


def main():
    clients, seconds = int(sys.argv[1]), float(sys.argv[2])
    counts = [0] * clients
    begun = time.monotonic()
    until = begun + seconds
    threads = [
        threading.Thread(target=client, args=(until, counts, index)) for index in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"operations per second: {sum(counts) / (time.monotonic() - begun):.1f}")


main()
