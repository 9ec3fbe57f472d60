/* What the programs on the stand-in share: its device, a registered buffer, connected queue pairs. */
#ifndef VERBENA_BENCH_DEVICE_H
#define VERBENA_BENCH_DEVICE_H

#include "common.h"

#include <infiniband/verbs.h>

#define BYTES 64

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_sge buffer;
};

/* Whole pages, all written once: pages that were only read are one page of zeros, which stays in the cache. */
static inline char *pages(size_t bytes)
{
	char *memory = check_pointer(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), "aligned_alloc");
	memset(memory, 1, bytes);
	return memory;
}

static inline void open_device(struct device *device)
{
	int count;
	struct ibv_device **list = check_pointer(ibv_get_device_list(&count), "ibv_get_device_list");
	void *memory;
	struct ibv_mr *mr;
	/* With a real libibverbs the numbers would mean something else. */
	if (count < 1 || strcmp(list[0]->name, "copy0") != 0)
		fail("libibverbs.so.1 is not the stand-in: it is to be in the folder stand-in beside "
		     "this program, and not in LD_LIBRARY_PATH as another one");
	device->context = check_pointer(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	device->pd = check_pointer(ibv_alloc_pd(device->context), "ibv_alloc_pd");
	memory = pages(4096);
	mr = check_pointer(ibv_reg_mr(device->pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	device->buffer = (struct ibv_sge){
		.addr = (uintptr_t)memory,
		.length = BYTES,
		.lkey = mr->lkey,
	};
}

static inline struct ibv_cq *completion_queue(struct device *device, uint32_t depth)
{
	return check_pointer(ibv_create_cq(device->context, (int)depth, NULL, NULL, 0),
			     "ibv_create_cq");
}

/* The library adds room for its own signals to the sends that its caller wants. With this, C's rings are as long. */
static inline uint32_t with_signals(uint32_t sends)
{
	uint32_t more = sends / 2;
	return sends + (more < 1 ? 1 : more > 64 ? 64 : more);
}

static inline struct ibv_qp *connected(struct device *device, struct ibv_cq *queue, uint32_t sends,
				       uint32_t receives, uint32_t inline_bytes)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends,
			.max_recv_wr = receives,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_bytes},
	};
	struct ibv_qp *pair = check_pointer(ibv_create_qp(device->pd, &init), "ibv_create_qp");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attributes = {.qp_state = states[i]};
		check(ibv_modify_qp(pair, &attributes, IBV_QP_STATE), "ibv_modify_qp");
	}
	return pair;
}

/* All fields of a request, as in a program whose messages differ. */
static inline void fill(struct ibv_send_wr *request, uint64_t id, struct ibv_sge *buffer,
			struct ibv_send_wr *next)
{
	*request = (struct ibv_send_wr){
		.wr_id = id,
		.next = next,
		.sg_list = buffer,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
}

#endif
