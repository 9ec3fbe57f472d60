/*
 * A stand-in for libibverbs: one device, "copy0", whose provider only copies.
 *
 * A post copies each request and its buffers into the queue's ring, as a hardware provider writes
 * its work queue entries, and rings no bell: no data moves, and a request is over at once. A poll
 * hands out one ibv_wc for each signalled request, in order. So a program that posts and polls here
 * spends its time in itself, and in as little of a provider as there can be. What this library's
 * numbers are good for is comparing callers.
 *
 * Like a provider's: one lock is taken by each call; a send queue's places are free again when a
 * completion at or behind them was polled, and until then a full queue answers ENOMEM; queues in the
 * error state flush what they have and what they are given.
 *
 * Of a queue pair that is connected to another one, sends arrive there, also in shared receives. Its
 * writes arrive, too, wherever they say: no key is checked. With STAND_IN_MOVES=n in the environment, no more than n bytes of
 * each buffer are moved. Otherwise there is nobody at the other end, and a receive ends by a flush
 * only.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* verbs.h has macros of these names, for programs. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

#define MOST_REQUESTS 32768u
#define MOST_BUFFERS 16u
#define MOST_INLINE 512u
#define MOST_COMPLETIONS (1 << 22)

struct entry { /* of a work queue; its buffers or inline bytes follow */
	uint64_t id;
	uint32_t opcode;
	uint32_t flags;
	uint32_t bytes;
	uint32_t buffers;
	uint64_t remote_address;
	uint32_t key;  /* the remote one; or that of a window to bind */
	uint32_t data; /* immediate, or the token to invalidate */
	uint64_t operands[2];
	unsigned char tail[];
};

struct ring {
	unsigned char *entries;
	size_t size;   /* of an entry */
	uint32_t mask; /* places, less one */
	uint32_t head; /* counts what was posted */
	uint32_t tail; /* counts what is over, as far as a poll has said */
	uint32_t flushed; /* receives only: counts what has a completion */
	uint32_t most_buffers;
	uint32_t most_inline;
};

struct completion {
	uint64_t id;
	struct queue_pair *queue_pair;
	uint32_t status;
	uint32_t opcode;
	uint32_t bytes;
	uint32_t place; /* the ring's tail when this was polled */
	uint32_t token; /* that the message has invalidated, if it has */
	bool receive;
	bool invalidated;
};

struct device_context {
	struct ibv_context context;
	int async_writer;
	uint32_t numbers; /* of keys and queue pairs */
	struct queue_pair *queue_pairs; /* under the context's mutex */
};

struct channel {
	struct ibv_comp_channel channel;
	int writer;
};

struct domain {
	struct ibv_pd pd;
	uint32_t users; /* what was created in it; as in the two below, which count queue pairs */
};

struct completion_queue {
	struct ibv_cq cq;
	pthread_spinlock_t lock; /* also of the work queues that complete here */
	struct completion *completions;
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
	int armed; /* NOT, SOLICITED or ANY */
	bool overrun;
	uint32_t events_taken; /* under cq.mutex, as are the counters in cq */
	uint32_t async_events_taken;
	uint32_t users;
};

enum { NOT, SOLICITED, ANY };

struct queue_pair {
	struct ibv_qp qp;
	struct ring sends;    /* under the send queue's lock */
	struct ring receives; /* under the receive queue's lock */
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr made;
	bool signals_all;
	/* That its sends arrive at, or NULL; written under the context's mutex and the send queue's lock. */
	struct queue_pair *peer;
	struct queue_pair *next; /* of the device */
};

struct shared_queue {
	struct ibv_srq srq;
	pthread_spinlock_t lock;
	struct ring receives;
	uint32_t limit;
	uint32_t users;
};

static struct device_context *context_of(struct ibv_context *context)
{
	return (struct device_context *)context;
}

static uint32_t next_number(struct ibv_context *context)
{
	return __atomic_add_fetch(&context_of(context)->numbers, 1, __ATOMIC_RELAXED);
}

/* ---- memory, counted: a program that measures its own leaves this out */

#define CACHE_LINE 64
#define CHUNK_HEADER 8 /* of malloc's, which mallinfo2 counts, too */

static size_t allocated;

size_t stand_in_allocated(void)
{
	return __atomic_load_n(&allocated, __ATOMIC_RELAXED);
}

void *stand_in_allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);
	if (memory)
		__atomic_add_fetch(&allocated, malloc_usable_size(memory) + CHUNK_HEADER, __ATOMIC_RELAXED);
	return memory;
}

void stand_in_release(void *memory)
{
	if (memory)
		__atomic_sub_fetch(&allocated, malloc_usable_size(memory) + CHUNK_HEADER, __ATOMIC_RELAXED);
	free(memory);
}

/*
 * In cache lines of its own, so that a request touches as many of them in one process as in another.
 * Not by posix_memalign: glibc 2.36 cannot use again what that leaves, and the process grows by MiB.
 * What calloc has given stands before it.
 */
static void *allocate_lines(size_t count, size_t size)
{
	char *memory = stand_in_allocate(1, count * size + CACHE_LINE);
	void **lines;
	if (!memory)
		return NULL;
	lines = (void **)(memory + CACHE_LINE - (uintptr_t)memory % CACHE_LINE);
	lines[-1] = memory;
	return lines;
}

static void release_lines(void *lines)
{
	if (lines)
		stand_in_release(((void **)lines)[-1]);
}

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t power = 1;
	while (power < at_least)
		power *= 2;
	return power;
}

/* ---- the device */

static struct ibv_device copy0 = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "copy0",
	.dev_name = "uverbs0",
	.dev_path = "",
	.ibdev_path = "",
};

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = stand_in_allocate(2, sizeof *list);
	if (!list)
		return NULL;
	list[0] = &copy0;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	stand_in_release(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	(void)context;
	memset(attributes, 0, sizeof *attributes);
	strcpy(attributes->fw_ver, "copies");
	attributes->max_mr_size = UINT64_MAX;
	attributes->page_size_cap = 4096;
	attributes->max_qp = 1 << 16;
	attributes->max_qp_wr = MOST_REQUESTS;
	attributes->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	attributes->max_sge = MOST_BUFFERS;
	attributes->max_sge_rd = MOST_BUFFERS;
	attributes->max_cq = 1 << 16;
	attributes->max_cqe = MOST_COMPLETIONS;
	attributes->max_mr = 1 << 16;
	attributes->max_pd = 1 << 16;
	attributes->max_qp_rd_atom = 16;
	attributes->max_qp_init_rd_atom = 16;
	attributes->atomic_cap = IBV_ATOMIC_HCA;
	attributes->max_mw = 1 << 16;
	attributes->max_srq = 1 << 16;
	attributes->max_srq_wr = MOST_REQUESTS;
	attributes->max_srq_sge = MOST_BUFFERS;
	attributes->max_pkeys = 1;
	attributes->phys_port_cnt = 1;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t number,
		   struct _compat_ibv_port_attr *attributes)
{
	struct ibv_port_attr port = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = 1u << 30,
		.pkey_tbl_len = 1,
		.phys_state = 5, /* LinkUp */
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	(void)context;
	if (number != 1)
		return EINVAL;
	/* This function's struct is as long as it was at first; newer fields stay as they are. */
	memcpy(attributes, &port, offsetof(struct ibv_port_attr, flags));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t count, uint32_t flags, size_t size)
{
	static const uint8_t gid[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 1};
	struct ibv_gid_entry entry = {
		.gid_index = 0, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	(void)context;
	if (flags || size > sizeof entry || count < 1)
		return -EINVAL;
	memcpy(entry.gid.raw, gid, sizeof gid);
	memcpy(entries, &entry, size);
	return 1;
}

/* ---- what has no data path */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct domain *domain = stand_in_allocate(1, sizeof *domain);
	if (!domain)
		return NULL;
	domain->pd.context = context;
	return &domain->pd;
}

static uint32_t *users_of(struct ibv_pd *pd)
{
	return &((struct domain *)pd)->users;
}

static void use(uint32_t *users)
{
	__atomic_add_fetch(users, 1, __ATOMIC_RELAXED);
}

static void unuse(uint32_t *users)
{
	__atomic_sub_fetch(users, 1, __ATOMIC_RELAXED);
}

/* As in the kernel, what is used cannot be destroyed. */
static bool used(uint32_t *users)
{
	return __atomic_load_n(users, __ATOMIC_RELAXED) != 0;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (used(users_of(pd)))
		return EBUSY;
	stand_in_release(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	struct ibv_mr *mr = stand_in_allocate(1, sizeof *mr);
	(void)access;
	if (!mr)
		return NULL;
	use(users_of(pd));
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = address;
	mr->length = length;
	mr->lkey = mr->rkey = next_number(pd->context) << 8;
	return mr;
}

/* What ibv_reg_mr of verbs.h calls when it cannot see the access flags while compiling. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	unuse(users_of(mr->pd));
	stand_in_release(mr);
	return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = stand_in_allocate(1, sizeof *mw);
	if (!mw)
		return NULL;
	use(users_of(pd));
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = next_number(pd->context) << 8;
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	unuse(users_of(mw->pd));
	stand_in_release(mw);
	return 0;
}

/* ---- completions */

/*
 * Writing never blocks: it happens inside a post, and the JVM cannot stop its threads during a
 * critical call. A full pipe holds thousands of events; one more is dropped. (The kernel keeps all.)
 */
static bool new_pipe(int *reader, int *writer)
{
	int both[2];
	if (pipe2(both, O_CLOEXEC))
		return false;
	fcntl(both[1], F_SETFL, O_WRONLY | O_NONBLOCK);
	*reader = both[0];
	*writer = both[1];
	return true;
}

/* A pipe takes 4096 bytes at once or not at all. */
static void notify(int writer, const void *event, size_t size)
{
	while (write(writer, event, size) < 0 && errno == EINTR)
		;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = stand_in_allocate(1, sizeof *channel);
	if (!channel)
		return NULL;
	if (!new_pipe(&channel->channel.fd, &channel->writer)) {
		stand_in_release(channel);
		return NULL;
	}
	channel->channel.context = context;
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (__atomic_load_n(&channel->refcnt, __ATOMIC_RELAXED))
		return EBUSY;
	close(channel->fd);
	close(((struct channel *)channel)->writer);
	stand_in_release(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int depth, void *user,
			     struct ibv_comp_channel *channel, int vector)
{
	struct completion_queue *queue;
	if (depth < 1 || depth > MOST_COMPLETIONS || vector != 0) {
		errno = EINVAL;
		return NULL;
	}
	queue = allocate_lines(1, sizeof *queue);
	if (!queue)
		return NULL;
	queue->mask = power_of_two((uint32_t)depth) - 1;
	queue->completions = allocate_lines(queue->mask + 1, sizeof *queue->completions);
	if (!queue->completions) {
		release_lines(queue);
		return NULL;
	}
	queue->cq.context = context;
	queue->cq.channel = channel;
	queue->cq.cq_context = user;
	queue->cq.cqe = (int)queue->mask + 1;
	pthread_mutex_init(&queue->cq.mutex, NULL);
	pthread_cond_init(&queue->cq.cond, NULL);
	pthread_spin_init(&queue->lock, PTHREAD_PROCESS_PRIVATE);
	if (channel)
		__atomic_add_fetch(&channel->refcnt, 1, __ATOMIC_RELAXED);
	return &queue->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int depth)
{
	struct completion_queue *queue = (struct completion_queue *)cq;
	struct completion *room, *old;
	uint32_t mask;
	int error = 0;
	if (depth < 1 || depth > MOST_COMPLETIONS)
		return EINVAL;
	mask = power_of_two((uint32_t)depth) - 1;
	room = allocate_lines(mask + 1, sizeof *room);
	if (!room)
		return ENOMEM;
	pthread_spin_lock(&queue->lock);
	old = queue->completions;
	if (queue->head - queue->tail > mask + 1) {
		old = room;
		error = EINVAL;
	} else {
		for (uint32_t i = queue->tail; i != queue->head; i++)
			room[i & mask] = old[i & queue->mask];
		queue->completions = room;
		queue->mask = mask;
		cq->cqe = (int)mask + 1;
	}
	pthread_spin_unlock(&queue->lock);
	release_lines(old);
	return error;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct completion_queue *queue = (struct completion_queue *)cq;
	if (used(&queue->users))
		return EBUSY;
	/* As the real one does: until every event that was taken was acknowledged. */
	pthread_mutex_lock(&cq->mutex);
	while (cq->comp_events_completed != queue->events_taken ||
	       cq->async_events_completed != queue->async_events_taken)
		pthread_cond_wait(&cq->cond, &cq->mutex);
	pthread_mutex_unlock(&cq->mutex);
	if (cq->channel)
		__atomic_sub_fetch(&cq->channel->refcnt, 1, __ATOMIC_RELAXED);
	pthread_spin_destroy(&queue->lock);
	pthread_cond_destroy(&cq->cond);
	pthread_mutex_destroy(&cq->mutex);
	release_lines(queue->completions);
	release_lines(queue);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
	struct completion_queue *queue;
	ssize_t got = read(channel->fd, &queue, sizeof queue);
	if (got != sizeof queue)
		return -1;
	*cq = &queue->cq;
	*user = queue->cq.cq_context;
	pthread_mutex_lock(&queue->cq.mutex);
	queue->events_taken++;
	pthread_mutex_unlock(&queue->cq.mutex);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (read(context->async_fd, event, sizeof *event) != sizeof *event)
		return -1;
	if (event->event_type == IBV_EVENT_CQ_ERR) {
		pthread_mutex_lock(&event->element.cq->mutex);
		((struct completion_queue *)event->element.cq)->async_events_taken++;
		pthread_mutex_unlock(&event->element.cq->mutex);
	}
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR) {
		pthread_mutex_lock(&event->element.cq->mutex);
		event->element.cq->async_events_completed++;
		pthread_cond_signal(&event->element.cq->cond);
		pthread_mutex_unlock(&event->element.cq->mutex);
	}
}

/* What a post notifies of after it has released the lock. */
struct news {
	bool event;
	bool overrun;
};

static inline void complete(struct completion_queue *queue, struct queue_pair *queue_pair,
			    const struct entry *entry, bool receive, uint32_t status,
			    uint32_t place, struct news *news)
{
	struct completion *completion;
	if (__builtin_expect(queue->head - queue->tail > queue->mask, 0)) {
		news->overrun |= !queue->overrun; /* once, also if one post overflows it twice */
		queue->overrun = true;
		return;
	}
	completion = &queue->completions[queue->head++ & queue->mask];
	completion->id = entry->id;
	completion->queue_pair = queue_pair;
	completion->status = status;
	completion->opcode = entry->opcode;
	completion->bytes = entry->bytes;
	completion->place = place;
	completion->receive = receive;
	completion->invalidated = receive && entry->key != 0;
	completion->token = entry->data;
	/* Solicited sends are not distinguished: a queue armed for these gets events of failures only. */
	if (__builtin_expect(queue->armed == ANY ||
			     (queue->armed == SOLICITED && status != IBV_WC_SUCCESS), 0)) {
		queue->armed = NOT;
		news->event = true;
	}
}

static inline void tell_news(struct completion_queue *queue, struct news news)
{
	if (__builtin_expect(news.event && queue->cq.channel != NULL, 0)) {
		notify(((struct channel *)queue->cq.channel)->writer, &queue, sizeof queue);
	}
	if (__builtin_expect(news.overrun, 0)) {
		struct ibv_async_event event = {
			.element.cq = &queue->cq, .event_type = IBV_EVENT_CQ_ERR};
		notify(context_of(queue->cq.context)->async_writer, &event, sizeof event);
	}
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	struct completion_queue *queue = (struct completion_queue *)cq;
	int count = 0;
	pthread_spin_lock(&queue->lock);
	if (__builtin_expect(queue->overrun, 0)) {
		pthread_spin_unlock(&queue->lock);
		return -1;
	}
	while (count < most && queue->tail != queue->head) {
		const struct completion *completion =
			&queue->completions[queue->tail++ & queue->mask];
		struct queue_pair *queue_pair = completion->queue_pair;
		wc->wr_id = completion->id;
		wc->status = completion->status;
		wc->opcode = completion->opcode;
		wc->vendor_err = 0;
		wc->byte_len = completion->bytes;
		wc->invalidated_rkey = completion->token;
		wc->qp_num = queue_pair->qp.qp_num;
		wc->src_qp = 0;
		wc->wc_flags = completion->invalidated ? IBV_WC_WITH_INV : 0;
		wc->pkey_index = 0;
		wc->slid = 0;
		wc->sl = 0;
		wc->dlid_path_bits = 0;
		if (__builtin_expect(completion->receive, 0))
			queue_pair->receives.tail = completion->place;
		else
			queue_pair->sends.tail = completion->place;
		wc++;
		count++;
	}
	pthread_spin_unlock(&queue->lock);
	return count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct completion_queue *queue = (struct completion_queue *)cq;
	pthread_spin_lock(&queue->lock);
	if (!solicited_only)
		queue->armed = ANY;
	else if (queue->armed == NOT)
		queue->armed = SOLICITED;
	pthread_spin_unlock(&queue->lock);
	return 0;
}

/* ---- work queues */

static bool make_ring(struct ring *ring, uint32_t places, uint32_t buffers, uint32_t inline_bytes)
{
	uint32_t tail = buffers * (uint32_t)sizeof(struct ibv_sge);
	if (places > MOST_REQUESTS || buffers > MOST_BUFFERS || inline_bytes > MOST_INLINE) {
		errno = EINVAL;
		return false;
	}
	if (tail < inline_bytes)
		tail = inline_bytes;
	ring->size = (sizeof(struct entry) + tail + 63) / 64 * 64;
	ring->mask = power_of_two(places ? places : 1) - 1;
	ring->most_buffers = buffers;
	ring->most_inline = inline_bytes;
	ring->entries = allocate_lines(ring->mask + 1, ring->size);
	return ring->entries != NULL;
}

static inline struct entry *entry_at(const struct ring *ring, uint32_t place)
{
	return (struct entry *)(ring->entries + (place & ring->mask) * ring->size);
}

static inline bool full(const struct ring *ring)
{
	return ring->head - ring->tail > ring->mask;
}

static inline uint32_t copy_buffers(struct entry *entry, const struct ibv_sge *list, int count)
{
	struct ibv_sge *to = (struct ibv_sge *)entry->tail;
	uint32_t bytes = 0;
	for (int i = 0; i < count; i++) {
		to[i] = list[i];
		bytes += list[i].length;
	}
	return bytes;
}

static uint32_t copy_inline(struct entry *entry, const struct ibv_sge *list, int count,
			    uint32_t most)
{
	uint32_t bytes = 0;
	for (int i = 0; i < count; i++) {
		if (list[i].length > most - bytes)
			return UINT32_MAX;
		memcpy(entry->tail + bytes, (const void *)(uintptr_t)list[i].addr, list[i].length);
		bytes += list[i].length;
	}
	return bytes;
}

/* Copies a request; answers 0 or an errno. Its opcode becomes that of its completion. */
static inline int write_entry(struct entry *entry, const struct ring *ring,
			      const struct ibv_send_wr *request)
{
	switch (request->opcode) {
	case IBV_WR_SEND:
		entry->opcode = IBV_WC_SEND;
		entry->key = 0;
		break;
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		entry->opcode = IBV_WC_SEND;
		entry->key = request->opcode == IBV_WR_SEND_WITH_INV; /* a flag */
		entry->data = request->invalidate_rkey; /* one union with imm_data */
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		entry->opcode = IBV_WC_RDMA_WRITE;
		entry->data = request->imm_data;
		entry->remote_address = request->wr.rdma.remote_addr;
		entry->key = request->wr.rdma.rkey;
		break;
	case IBV_WR_RDMA_READ:
		entry->opcode = IBV_WC_RDMA_READ;
		entry->remote_address = request->wr.rdma.remote_addr;
		entry->key = request->wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		entry->opcode = request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP
									     : IBV_WC_FETCH_ADD;
		entry->remote_address = request->wr.atomic.remote_addr;
		entry->key = request->wr.atomic.rkey;
		entry->operands[0] = request->wr.atomic.compare_add;
		entry->operands[1] = request->wr.atomic.swap;
		break;
	case IBV_WR_LOCAL_INV:
		entry->opcode = IBV_WC_LOCAL_INV;
		entry->data = request->invalidate_rkey;
		break;
	case IBV_WR_BIND_MW:
		entry->opcode = IBV_WC_BIND_MW;
		entry->key = request->bind_mw.rkey;
		entry->remote_address = request->bind_mw.bind_info.addr;
		entry->operands[0] = request->bind_mw.bind_info.length;
		entry->operands[1] = request->bind_mw.bind_info.mw_access_flags;
		break;
	default:
		return EINVAL;
	}
	entry->id = request->wr_id;
	entry->flags = request->send_flags;
	if (__builtin_expect((request->send_flags & IBV_SEND_INLINE) != 0, 0)) {
		entry->buffers = 0;
		entry->bytes = copy_inline(entry, request->sg_list, request->num_sge,
					   ring->most_inline);
		return entry->bytes == UINT32_MAX ? EINVAL : 0;
	}
	if (__builtin_expect((uint32_t)request->num_sge > ring->most_buffers, 0))
		return EINVAL;
	entry->buffers = (uint32_t)request->num_sge;
	entry->bytes = copy_buffers(entry, request->sg_list, request->num_sge);
	return 0;
}

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* How many bytes of a buffer are moved: all of them; or few, as moving them is a NIC's work. */
static uint32_t most_moved = UINT32_MAX;

__attribute__((constructor)) static void read_most_moved(void)
{
	const char *value = getenv("STAND_IN_MOVES");
	if (value)
		most_moved = (uint32_t)strtoul(value, NULL, 10);
}

static void gather(unsigned char *to, const struct entry *sent)
{
	const struct ibv_sge *from = (const struct ibv_sge *)sent->tail;
	for (uint32_t i = 0; i < sent->buffers; i++) {
		uint32_t bytes = from[i].length;
		memcpy(to, pointer(from[i].addr), bytes < most_moved ? bytes : most_moved);
		to += bytes;
	}
}

static void move(unsigned char *to, const struct entry *sent)
{
	if (sent->buffers)
		gather(to, sent);
	else /* inline */
		memcpy(to, sent->tail, sent->bytes);
}

/* Puts a message into an entry of receives; answers the status of the receive. */
static uint32_t put(struct entry *entry, const struct entry *sent)
{
	const struct ibv_sge *to = (const struct ibv_sge *)entry->tail;
	/* The benchmarks use one buffer for each receive. */
	if (sent->bytes > (entry->buffers == 1 ? to->length : 0))
		return IBV_WC_LOC_LEN_ERR;
	move(pointer(to->addr), sent);
	entry->bytes = sent->bytes;
	entry->key = sent->key;
	entry->data = sent->data;
	return IBV_WC_SUCCESS;
}

static void flush_receives(struct queue_pair *queue_pair, struct completion_queue *queue,
			   struct news *news)
{
	struct ring *ring = &queue_pair->receives;
	while (ring->flushed != ring->head) {
		struct entry *entry = entry_at(ring, ring->flushed++);
		complete(queue, queue_pair, entry, true, IBV_WC_WR_FLUSH_ERR, ring->flushed, news);
	}
}

/*
 * Delivers a message to the peer; answers the status of the send. The caller holds the lock of the
 * queue that the receive completes in.
 */
static uint32_t deliver(struct queue_pair *peer, struct completion_queue *queue,
			const struct entry *sent, struct news *news)
{
	struct shared_queue *shared = (struct shared_queue *)peer->qp.srq;
	struct ring *ring = shared ? &shared->receives : &peer->receives;
	uint32_t status = IBV_WC_RNR_RETRY_EXC_ERR;
	if (peer->qp.state != IBV_QPS_RTR && peer->qp.state != IBV_QPS_RTS)
		return IBV_WC_RETRY_EXC_ERR;
	if (shared)
		pthread_spin_lock(&shared->lock);
	if (ring->flushed != ring->head) {
		struct entry *entry = entry_at(ring, ring->flushed++);
		uint32_t received = put(entry, sent);
		complete(queue, peer, entry, true, received, ring->flushed, news);
		if (shared)
			ring->tail++;
		status = received == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR;
	}
	if (shared)
		pthread_spin_unlock(&shared->lock);
	if (status == IBV_WC_REM_INV_REQ_ERR) {
		peer->qp.state = IBV_QPS_ERR;
		flush_receives(peer, queue, news);
	}
	return status;
}

/* The queue where what a queue pair sends arrives; the caller holds the send queue's lock. */
static struct completion_queue *arrivals(const struct queue_pair *queue_pair)
{
	return (struct completion_queue *)(queue_pair->peer ? queue_pair->peer->qp.recv_cq
							    : queue_pair->qp.send_cq);
}

/* The locks of one or two queues, in one order for all. */
static inline void lock_two(struct completion_queue *one, struct completion_queue *other)
{
	if (__builtin_expect(one == other, 1)) {
		pthread_spin_lock(&one->lock);
		return;
	}
	pthread_spin_lock(one < other ? &one->lock : &other->lock);
	pthread_spin_lock(one < other ? &other->lock : &one->lock);
}

static inline void unlock_two(struct completion_queue *one, struct completion_queue *other)
{
	pthread_spin_unlock(&one->lock);
	if (__builtin_expect(one != other, 0))
		pthread_spin_unlock(&other->lock);
}

/*
 * Locks the queue that a queue pair's sends complete in and the one where they arrive; answers the
 * latter. The first lock keeps the peer, and with it the second queue: so that one is only tried, as
 * waiting for it would be in the wrong order, and giving up the first would let the peer go.
 */
static inline struct completion_queue *lock_for_sends(struct queue_pair *queue_pair)
{
	struct completion_queue *queue = (struct completion_queue *)queue_pair->qp.send_cq;
	for (;;) {
		struct completion_queue *there;
		pthread_spin_lock(&queue->lock);
		there = arrivals(queue_pair);
		if (__builtin_expect(there == queue, 1) || !pthread_spin_trylock(&there->lock))
			return there;
		pthread_spin_unlock(&queue->lock);
	}
}

static void flush_receives_of_failed(struct queue_pair *queue_pair);

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **refused)
{
	struct queue_pair *queue_pair = (struct queue_pair *)qp;
	struct completion_queue *queue = (struct completion_queue *)qp->send_cq;
	struct ring *ring = &queue_pair->sends;
	struct completion_queue *there = lock_for_sends(queue_pair);
	struct news news = {false, false};
	struct news news_there = {false, false};
	bool flush, failed = false;
	uint32_t status;
	int error = 0;
	flush = qp->state == IBV_QPS_ERR;
	if (__builtin_expect(qp->state != IBV_QPS_RTS && !flush, 0)) {
		error = EINVAL;
		*refused = request;
		request = NULL;
	}
	for (; request; request = request->next) {
		struct entry *entry = entry_at(ring, ring->head);
		error = __builtin_expect(full(ring), 0) ? ENOMEM
							: write_entry(entry, ring, request);
		if (__builtin_expect(error, 0)) {
			*refused = request;
			break;
		}
		ring->head++;
		status = flush ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
		if (__builtin_expect(queue_pair->peer && !flush && entry->opcode == IBV_WC_SEND, 0))
			status = deliver(queue_pair->peer, there, entry,
					 there == queue ? &news : &news_there);
		else if (__builtin_expect(queue_pair->peer && !flush &&
					  entry->opcode == IBV_WC_RDMA_WRITE, 0))
			move(pointer(entry->remote_address), entry);
		if (request->send_flags & IBV_SEND_SIGNALED || queue_pair->signals_all || status)
			complete(queue, queue_pair, entry, false, status, ring->head, &news);
		if (__builtin_expect(status != IBV_WC_SUCCESS && !flush, 0)) {
			qp->state = IBV_QPS_ERR;
			flush = failed = true;
		}
	}
	unlock_two(queue, there);
	tell_news(queue, news);
	tell_news(there, news_there);
	if (__builtin_expect(failed, 0))
		flush_receives_of_failed(queue_pair);
	return error;
}

/* Answers 0 or an errno, and then where. */
static int add_receives(struct ring *ring, struct ibv_recv_wr *request,
			struct ibv_recv_wr **refused)
{
	for (; request; request = request->next) {
		struct entry *entry = entry_at(ring, ring->head);
		int error = full(ring)                                          ? ENOMEM
			    : (uint32_t)request->num_sge > ring->most_buffers ? EINVAL
									      : 0;
		if (error) {
			*refused = request;
			return error;
		}
		entry->id = request->wr_id;
		entry->opcode = IBV_WC_RECV;
		entry->buffers = (uint32_t)request->num_sge;
		copy_buffers(entry, request->sg_list, request->num_sge);
		entry->bytes = 0;
		ring->head++;
	}
	return 0;
}

/* Its receives complete in a queue whose lock the post of the send that failed need not have held. */
static void flush_receives_of_failed(struct queue_pair *queue_pair)
{
	struct completion_queue *queue = (struct completion_queue *)queue_pair->qp.recv_cq;
	struct news news = {false, false};
	pthread_spin_lock(&queue->lock);
	if (queue_pair->qp.state == IBV_QPS_ERR)
		flush_receives(queue_pair, queue, &news);
	pthread_spin_unlock(&queue->lock);
	tell_news(queue, news);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **refused)
{
	struct queue_pair *queue_pair = (struct queue_pair *)qp;
	struct completion_queue *queue = (struct completion_queue *)qp->recv_cq;
	struct news news = {false, false};
	int error;
	pthread_spin_lock(&queue->lock);
	if (qp->srq || qp->state == IBV_QPS_RESET) {
		*refused = request;
		error = EINVAL;
	} else {
		error = add_receives(&queue_pair->receives, request, refused);
		if (qp->state == IBV_QPS_ERR)
			flush_receives(queue_pair, queue, &news);
	}
	pthread_spin_unlock(&queue->lock);
	tell_news(queue, news);
	return error;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *request,
			 struct ibv_recv_wr **refused)
{
	struct shared_queue *queue = (struct shared_queue *)srq;
	int error;
	pthread_spin_lock(&queue->lock);
	error = add_receives(&queue->receives, request, refused);
	pthread_spin_unlock(&queue->lock);
	return error;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct shared_queue *queue = stand_in_allocate(1, sizeof *queue);
	if (!queue)
		return NULL;
	if (!make_ring(&queue->receives, init->attr.max_wr, init->attr.max_sge, 0)) {
		stand_in_release(queue);
		return NULL;
	}
	init->attr.max_wr = queue->receives.mask + 1;
	use(users_of(pd));
	queue->srq.context = pd->context;
	queue->srq.srq_context = init->srq_context;
	queue->srq.pd = pd;
	pthread_mutex_init(&queue->srq.mutex, NULL);
	pthread_cond_init(&queue->srq.cond, NULL);
	pthread_spin_init(&queue->lock, PTHREAD_PROCESS_PRIVATE);
	return &queue->srq;
}

/* Receives are not counted when messages take them, so no event reports a limit. */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attributes, int mask)
{
	if (mask != IBV_SRQ_LIMIT)
		return EOPNOTSUPP;
	((struct shared_queue *)srq)->limit = attributes->srq_limit;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct shared_queue *queue = (struct shared_queue *)srq;
	if (used(&queue->users))
		return EBUSY;
	unuse(users_of(srq->pd));
	pthread_spin_destroy(&queue->lock);
	pthread_cond_destroy(&srq->cond);
	pthread_mutex_destroy(&srq->mutex);
	release_lines(queue->receives.entries);
	stand_in_release(queue);
	return 0;
}

/* ---- queue pairs */

static void for_used(struct ibv_qp *qp, void (*count)(uint32_t *))
{
	count(users_of(qp->pd));
	count(&((struct completion_queue *)qp->send_cq)->users);
	count(&((struct completion_queue *)qp->recv_cq)->users);
	if (qp->srq)
		count(&((struct shared_queue *)qp->srq)->users);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct queue_pair *queue_pair;
	const struct ibv_qp_cap *cap = &init->cap;
	if (init->qp_type != IBV_QPT_RC || !init->send_cq || !init->recv_cq) {
		errno = EINVAL;
		return NULL;
	}
	queue_pair = allocate_lines(1, sizeof *queue_pair);
	if (!queue_pair)
		return NULL;
	if (!make_ring(&queue_pair->sends, cap->max_send_wr, cap->max_send_sge,
		       cap->max_inline_data) ||
	    !make_ring(&queue_pair->receives, init->srq ? 0 : cap->max_recv_wr,
		       init->srq ? 0 : cap->max_recv_sge, 0)) {
		release_lines(queue_pair->sends.entries);
		release_lines(queue_pair);
		return NULL;
	}
	init->cap.max_send_wr = queue_pair->sends.mask + 1;
	if (!init->srq)
		init->cap.max_recv_wr = queue_pair->receives.mask + 1;
	queue_pair->made = *init;
	queue_pair->signals_all = init->sq_sig_all != 0;
	queue_pair->attributes.cap = init->cap;
	queue_pair->qp.context = pd->context;
	queue_pair->qp.qp_context = init->qp_context;
	queue_pair->qp.pd = pd;
	queue_pair->qp.send_cq = init->send_cq;
	queue_pair->qp.recv_cq = init->recv_cq;
	queue_pair->qp.srq = init->srq;
	for_used(&queue_pair->qp, use);
	queue_pair->qp.qp_num = next_number(pd->context) & 0xFFFFFF;
	queue_pair->qp.state = IBV_QPS_RESET;
	queue_pair->qp.qp_type = init->qp_type;
	pthread_mutex_init(&queue_pair->qp.mutex, NULL);
	pthread_cond_init(&queue_pair->qp.cond, NULL);
	pthread_mutex_lock(&pd->context->mutex);
	queue_pair->next = context_of(pd->context)->queue_pairs;
	context_of(pd->context)->queue_pairs = queue_pair;
	pthread_mutex_unlock(&pd->context->mutex);
	return &queue_pair->qp;
}

static bool leads_to(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR || from == IBV_QPS_RTS;
	default:
		return false;
	}
}

static void lock_both(struct ibv_qp *qp)
{
	lock_two((struct completion_queue *)qp->send_cq, (struct completion_queue *)qp->recv_cq);
}

static void unlock_both(struct ibv_qp *qp)
{
	unlock_two((struct completion_queue *)qp->send_cq, (struct completion_queue *)qp->recv_cq);
}

/* Takes a queue pair's completions out of a queue whose lock is held. */
static void forget(struct completion_queue *queue, const struct queue_pair *queue_pair)
{
	uint32_t kept = queue->tail;
	for (uint32_t i = queue->tail; i != queue->head; i++) {
		const struct completion *completion = &queue->completions[i & queue->mask];
		if (completion->queue_pair != queue_pair)
			queue->completions[kept++ & queue->mask] = *completion;
	}
	queue->head = kept;
}

static void forget_everywhere(struct queue_pair *queue_pair)
{
	forget((struct completion_queue *)queue_pair->qp.send_cq, queue_pair);
	forget((struct completion_queue *)queue_pair->qp.recv_cq, queue_pair);
}

/* The queue pair that sends arrive at; the caller holds the locks and the context's mutex. */
static struct queue_pair *peer_of(const struct queue_pair *queue_pair)
{
	struct queue_pair *peer = context_of(queue_pair->qp.context)->queue_pairs;
	while (peer && peer->qp.qp_num != queue_pair->attributes.dest_qp_num)
		peer = peer->next;
	return peer == queue_pair ? NULL : peer;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
	struct queue_pair *queue_pair = (struct queue_pair *)qp;
	struct ibv_qp_attr *kept = &queue_pair->attributes;
	struct news news = {false, false};
	pthread_mutex_lock(&qp->context->mutex);
	lock_both(qp);
	if (mask & IBV_QP_STATE && !leads_to(qp->state, attributes->qp_state)) {
		unlock_both(qp);
		pthread_mutex_unlock(&qp->context->mutex);
		return EINVAL;
	}
	if (mask & IBV_QP_ACCESS_FLAGS)
		kept->qp_access_flags = attributes->qp_access_flags;
	if (mask & IBV_QP_PORT)
		kept->port_num = attributes->port_num;
	if (mask & IBV_QP_AV)
		kept->ah_attr = attributes->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		kept->path_mtu = attributes->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		kept->dest_qp_num = attributes->dest_qp_num;
	if (mask & IBV_QP_DEST_QPN)
		queue_pair->peer = peer_of(queue_pair);
	if (mask & IBV_QP_RQ_PSN)
		kept->rq_psn = attributes->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		kept->sq_psn = attributes->sq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		kept->max_dest_rd_atomic = attributes->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		kept->max_rd_atomic = attributes->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		kept->min_rnr_timer = attributes->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		kept->timeout = attributes->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		kept->retry_cnt = attributes->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		kept->rnr_retry = attributes->rnr_retry;
	if (mask & IBV_QP_STATE) {
		qp->state = kept->qp_state = attributes->qp_state;
		if (qp->state == IBV_QPS_RESET) {
			struct ring *sends = &queue_pair->sends;
			struct ring *receives = &queue_pair->receives;
			forget_everywhere(queue_pair);
			sends->head = sends->tail = 0;
			receives->head = receives->tail = receives->flushed = 0;
		} else if (qp->state == IBV_QPS_ERR) {
			/* Sends were over when they were posted. */
			flush_receives(queue_pair, (struct completion_queue *)qp->recv_cq, &news);
		}
	}
	unlock_both(qp);
	pthread_mutex_unlock(&qp->context->mutex);
	tell_news((struct completion_queue *)qp->recv_cq, news);
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct queue_pair *queue_pair = (struct queue_pair *)qp;
	(void)mask;
	lock_both(qp);
	*attributes = queue_pair->attributes;
	attributes->qp_state = attributes->cur_qp_state = qp->state;
	*init = queue_pair->made;
	unlock_both(qp);
	return 0;
}

/* Waits for a post that delivers to it. */
static void forget_peer(struct queue_pair *queue_pair)
{
	struct completion_queue *queue = (struct completion_queue *)queue_pair->qp.send_cq;
	pthread_spin_lock(&queue->lock);
	queue_pair->peer = NULL;
	pthread_spin_unlock(&queue->lock);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct queue_pair *queue_pair = (struct queue_pair *)qp;
	struct queue_pair **link = &context_of(qp->context)->queue_pairs;
	pthread_mutex_lock(&qp->context->mutex);
	for (struct queue_pair *other = *link; other; other = other->next)
		if (other->peer == queue_pair)
			forget_peer(other);
	lock_both(qp);
	forget_everywhere(queue_pair);
	while (*link != queue_pair)
		link = &(*link)->next;
	*link = queue_pair->next;
	unlock_both(qp);
	for_used(qp, unuse);
	pthread_mutex_unlock(&qp->context->mutex);
	pthread_cond_destroy(&qp->cond);
	pthread_mutex_destroy(&qp->mutex);
	release_lines(queue_pair->sends.entries);
	release_lines(queue_pair->receives.entries);
	release_lines(queue_pair);
	return 0;
}

/* ---- opening */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct device_context *opened = stand_in_allocate(1, sizeof *opened);
	struct ibv_context *context;
	if (!opened)
		return NULL;
	context = &opened->context;
	if (!new_pipe(&context->async_fd, &opened->async_writer)) {
		stand_in_release(opened);
		return NULL;
	}
	/* abi_compat stays NULL: there is no verbs_context around this. */
	context->device = device;
	context->cmd_fd = -1;
	context->num_comp_vectors = 1;
	pthread_mutex_init(&context->mutex, NULL);
	context->ops.alloc_mw = alloc_mw;
	context->ops.dealloc_mw = dealloc_mw;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	close(context->async_fd);
	close(context_of(context)->async_writer);
	pthread_mutex_destroy(&context->mutex);
	stand_in_release(context);
	return 0;
}
