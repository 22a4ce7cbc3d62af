// Clients that write one table behind a shared mutex: usage: shared CLIENTS SECONDS
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

static std::shared_mutex guard;
static std::map<unsigned long, unsigned long> table;
static std::atomic<bool> stop;
static std::atomic<long> done;

static unsigned long mix(unsigned long x, int rounds)
{
	for (int i = 0; i < rounds; i++)
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
	return x;
}

__attribute__((noinline)) static void store_price(unsigned long key)
{
	std::unique_lock<std::shared_mutex> held(guard);
	table[key % 1024] = mix(key, 12000);
}

int main(int count, char **words)
{
	long clients = count > 1 ? std::atol(words[1]) : 1, seconds = count > 2 ? std::atol(words[2]) : 1;
	std::vector<std::thread> threads;
	for (long number = 0; number < clients; number++)
		threads.emplace_back([=] {
			unsigned long key = number + 1;
			while (!stop) {
				key = mix(key + 1, 3000);
				store_price(key);
				done++;
			}
		});
	std::this_thread::sleep_for(std::chrono::seconds(seconds));
	long counted = done;
	stop = true;
	for (auto &thread : threads)
		thread.join();
	std::printf("%.1f operations/s\n", double(counted) / seconds);
}
