"""The closed network of crates/model/tests/twins/network.toml in SimPy: 64 customers, 8 cores of
mean service 1, 4 single servers of mean 0.4 of which each visit takes one at random.
Prints its name, service completions for each second, and throughput (exact: 7.9991)."""

import random
import time

import simpy

CUSTOMERS, CORES, SERVERS, UNTIL = 64, 8, 4, 5000.0


def customer(env, cores, servers, done):
    while True:
        with cores.request() as turn:
            yield turn
            yield env.timeout(random.expovariate(1.0))
        done[0] += 1
        with servers[random.randrange(SERVERS)].request() as turn:
            yield turn
            yield env.timeout(random.expovariate(2.5))
        done[1] += 1


def main():
    random.seed(1)
    env = simpy.Environment()
    cores = simpy.Resource(env, CORES)
    servers = [simpy.Resource(env, 1) for _ in range(SERVERS)]
    done = [0, 0]
    for _ in range(CUSTOMERS):
        env.process(customer(env, cores, servers, done))
    begun = time.perf_counter()
    env.run(until=UNTIL)
    spent = time.perf_counter() - begun
    print(f"SimPy {simpy.__version__}\t{sum(done) / spent:.0f}\t{done[1] / UNTIL:.3f}")


main()
