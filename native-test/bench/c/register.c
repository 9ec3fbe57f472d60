/*
 * Registering and deregistering memory in C: dev.verbena.bench.Registering does the same from Java.
 * One line per size and round, the median of the round.
 */
#include "common.h"

#include <infiniband/verbs.h>

#define SMALL ((size_t)4096)
#define LARGE ((size_t)1 << 30)

static struct ibv_context *open_device(const char *name)
{
	int count;
	struct ibv_device **list = check_pointer(ibv_get_device_list(&count), "ibv_get_device_list");
	struct ibv_context *context = NULL;
	for (int i = 0; i < count && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = check_pointer(ibv_open_device(list[i]), "ibv_open_device");
	ibv_free_device_list(list);
	if (!context)
		fail("There is no RDMA device \"%s\" here (ibv_devices shows them)", name);
	return context;
}

/* Memory whose pages exist. */
static void *touched(size_t bytes)
{
	void *memory = check_pointer(aligned_alloc(SMALL, bytes), "aligned_alloc");
	memset(memory, 1, bytes);
	return memory;
}

static void measure(struct ibv_pd *pd, void *memory, size_t bytes, size_t count, uint64_t *registering,
		    uint64_t *deregistering)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t start = now(), middle;
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
		if (!mr)
			fail("ibv_reg_mr(%zu bytes): %s (ulimit -l is how much may be locked)", bytes,
			     strerror(errno));
		middle = now();
		check(ibv_dereg_mr(mr), "ibv_dereg_mr");
		registering[i] = middle - start;
		deregistering[i] = now() - middle;
	}
}

static void round_of(struct ibv_pd *pd, void *memory, size_t bytes, size_t count)
{
	uint64_t *registering = check_pointer(calloc(count, sizeof(uint64_t)), "calloc");
	uint64_t *deregistering = check_pointer(calloc(count, sizeof(uint64_t)), "calloc");
	uint64_t *both = check_pointer(calloc(count, sizeof(uint64_t)), "calloc");
	measure(pd, memory, bytes, count, registering, deregistering);
	for (size_t i = 0; i < count; i++)
		both[i] = registering[i] + deregistering[i];
	result("register-deregister", "bytes=%zu", median(both, count) / 1000, "us", bytes);
	result("register", "bytes=%zu", median(registering, count) / 1000, "us", bytes);
	result("deregister", "bytes=%zu", median(deregistering, count) / 1000, "us", bytes);
	free(registering);
	free(deregistering);
	free(both);
}

int main(int argc, char **argv)
{
	size_t count = 1000, large_count = 5, warmup = 30000, rounds = 5;
	struct ibv_pd *pd;
	void *small, *large;
	uint64_t *unused;
	if (argc < 2 || argc % 2)
		fail("usage: register DEVICE [--count N] [--large-count N] [--warmup N] [--rounds N]");
	for (int i = 2; i < argc; i += 2) {
		size_t value = number(argv[i], argv[i + 1]);
		if (!strcmp(argv[i], "--count"))
			count = value;
		else if (!strcmp(argv[i], "--large-count"))
			large_count = value;
		else if (!strcmp(argv[i], "--warmup"))
			warmup = value;
		else if (!strcmp(argv[i], "--rounds"))
			rounds = value;
		else
			fail("%s: there is no such option", argv[i]);
	}
	pd = check_pointer(ibv_alloc_pd(open_device(argv[1])), "ibv_alloc_pd");
	small = touched(SMALL);
	large = touched(LARGE);
	unused = check_pointer(calloc(2 * warmup, sizeof *unused), "calloc");
	measure(pd, small, SMALL, warmup, unused, unused + warmup);
	measure(pd, large, LARGE, 1, unused, unused + 1);
	for (size_t i = 0; i < rounds; i++) {
		round_of(pd, small, SMALL, count);
		round_of(pd, large, LARGE, large_count);
	}
	return 0;
}
