// Workers that are all woken for each single piece of work: usage: herd WORKERS SECONDS
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex gate;
static std::condition_variable turned;
static long turn;
static std::atomic<bool> stop;
static std::atomic<long> done;

// One worker's turn comes after the other's; each turn wakes everybody.
__attribute__((noinline)) static void take_turn(long mine, long all)
{
	std::unique_lock<std::mutex> held(gate);
	turned.wait(held, [&] { return stop || turn % all == mine; });
	for (volatile int i = 0; i < 20000; i++)
		;
	turn++;
	turned.notify_all();
}

int main(int count, char **words)
{
	long all = count > 1 ? std::atol(words[1]) : 1, seconds = count > 2 ? std::atol(words[2]) : 1;
	std::vector<std::thread> workers;
	for (long mine = 0; mine < all; mine++)
		workers.emplace_back([=] {
			while (!stop) {
				take_turn(mine, all);
				done++;
			}
		});
	std::this_thread::sleep_for(std::chrono::seconds(seconds));
	long counted = done;
	{
		std::lock_guard<std::mutex> held(gate);
		stop = true;
	}
	turned.notify_all();
	for (auto &worker : workers)
		worker.join();
	std::printf("%.1f operations/s\n", double(counted) / seconds);
}
