/*
 * How much more two threads do than one, each with a queue pair and a completion queue of its own,
 * on the stand-in for libibverbs (stand_in.c): dev.verbena.bench.TwoThreads does the same from Java.
 * One line for each round: requests in a second of two threads, divided by those of one.
 */
#include "device.h"

#include <pthread.h>
#include <stdbool.h>

#define BATCH 1000 /* posts between two looks at the clock */
#define THREADS 2

struct worker { /* in cache lines of its own: the processor fetches them in pairs */
	_Alignas(128) struct device *device;
	struct ibv_sge buffer;
	struct ibv_cq *queue;
	struct ibv_qp *queue_pair;
	uint64_t duration, sum;
	double rate; /* in a ns */
	pthread_barrier_t *start;
};

static void post_and_poll(struct worker *worker)
{
	_Alignas(CACHE_LINE) struct ibv_send_wr request;
	struct ibv_send_wr *refused;
	_Alignas(CACHE_LINE) struct ibv_wc completion;
	int error;
	fill(&request, 7, &worker->buffer, NULL);
	error = ibv_post_send(worker->queue_pair, &request, &refused);
	if (error)
		fail("ibv_post_send: %s", strerror(error));
	if (ibv_poll_cq(worker->queue, 1, &completion) != 1 || completion.status != IBV_WC_SUCCESS)
		fail("no completion, or status %d", completion.status);
	worker->sum += completion.wr_id;
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	uint64_t start, end, posts = 0;
	pthread_barrier_wait(worker->start);
	start = now();
	do {
		for (int i = 0; i < BATCH; i++)
			post_and_poll(worker);
		posts += BATCH;
		end = now();
	} while (end - start < worker->duration);
	worker->rate = (double)posts / (double)(end - start);
	return NULL;
}

/* Requests of so many threads in a ns. */
static double rate(struct worker *workers, int count)
{
	pthread_t threads[THREADS];
	pthread_barrier_t start;
	double sum = 0;
	check(pthread_barrier_init(&start, NULL, (unsigned)count), "pthread_barrier_init");
	for (int i = 0; i < count; i++) {
		workers[i].start = &start;
		check(pthread_create(&threads[i], NULL, run, &workers[i]), "pthread_create");
	}
	for (int i = 0; i < count; i++) {
		check(pthread_join(threads[i], NULL), "pthread_join");
		sum += workers[i].rate;
	}
	check(pthread_barrier_destroy(&start), "pthread_barrier_destroy");
	return sum;
}

int main(int argc, char **argv)
{
	static struct device devices[THREADS];
	static struct worker *workers;
	uint64_t milliseconds = 500, rounds = 5;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--ms"))
			milliseconds = number(argv[i], argv[i + 1]);
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = number(argv[i], argv[i + 1]);
		else
			fail("usage: two_threads [--ms N] [--rounds N]");
	}
	workers = check_pointer(aligned_alloc(_Alignof(struct worker), THREADS * sizeof *workers),
				"aligned_alloc");
	for (int i = 0; i < THREADS; i++) {
		open_device(&devices[i]);
		workers[i] = (struct worker){.device = &devices[i],
					     .buffer = devices[i].buffer,
					     .duration = milliseconds * 1000000};
		workers[i].queue = completion_queue(&devices[i], 32);
		workers[i].queue_pair = connected(&devices[i], workers[i].queue, with_signals(16), 1, 0);
	}
	rate(workers, THREADS); /* warm-up */
	for (uint64_t i = 0; i < rounds; i++) {
		double one = rate(workers, 1);
		result("two-threads", "%s", rate(workers, THREADS) / one, "times", "-");
	}
	return 0;
}
