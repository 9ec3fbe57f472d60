/*
 * A stand-in for librdmacm, beside the one for libibverbs (stand_in.c): a connection manager for the
 * queue pairs of one process, whose network is that process. Any address leads to the device "copy0".
 *
 * Identifiers have no queue pair attached: rdma_init_qp_attr says how to connect one. Events come in
 * the order of their causes and at once; nothing is lost, late or sent again. There is no time-wait.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What a message of the connection manager has room for, in the port space of TCP. */
enum { REQUEST_BYTES = 56, REPLY_BYTES = 196, REJECT_BYTES = 148 };
enum { FIRST_PORT = 49152, PORTS = 16384, REJECTED_NO_LISTENER = 8, REJECTED_BY_PROGRAM = 28 };

struct event {
	struct rdma_cm_event event;
	struct event *next;
	bool gone; /* its identifier */
	unsigned char data[REPLY_BYTES];
};

struct channel {
	struct rdma_event_channel channel; /* its descriptor counts the events */
	struct event *first;
	struct event **end;
};

struct identifier {
	struct rdma_cm_id id;
	enum { IDLE, CONNECTING, REQUESTED, ANSWERED, ACCEPTED, ESTABLISHED, OVER } state;
	bool disconnected;
	struct identifier *peer;     /* that its messages go to */
	struct identifier *listener; /* next in the list of those */
	struct rdma_conn_param sent; /* by connect or accept */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that is here */
static struct identifier *listeners;
static unsigned int ports;
static struct ibv_context of_identifiers; /* which are asked for the name of their device only */

static int fails(int error)
{
	errno = error;
	return -1;
}

/* ---- events */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = stand_in_allocate(1, sizeof *channel);
	if (!channel)
		return NULL;
	channel->end = &channel->first;
	channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (channel->channel.fd < 0) {
		stand_in_release(channel);
		return NULL;
	}
	return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *destroyed)
{
	struct channel *channel = (struct channel *)destroyed;
	while (channel->first) {
		struct event *event = channel->first;
		channel->first = event->next;
		stand_in_release(event);
	}
	close(channel->channel.fd);
	stand_in_release(channel);
}

int rdma_get_cm_event(struct rdma_event_channel *from, struct rdma_cm_event **taken)
{
	struct channel *channel = (struct channel *)from;
	struct event *event;
	uint64_t one;
	bool gone;
	do {
		if (read(channel->channel.fd, &one, sizeof one) < 0)
			return -1;
		pthread_mutex_lock(&lock);
		event = channel->first;
		channel->first = event->next;
		if (!channel->first)
			channel->end = &channel->first;
		gone = event->gone;
		pthread_mutex_unlock(&lock);
		if (gone)
			stand_in_release(event);
	} while (gone);
	*taken = &event->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	stand_in_release(event);
	return 0;
}

/* The caller holds the lock. Out of memory, an event is lost, and so may one be on a network. */
static void tell(struct identifier *id, enum rdma_cm_event_type type, int status,
		 const struct rdma_conn_param *sent, uint8_t room, struct identifier *request)
{
	static const uint64_t one = 1;
	struct event *event;
	struct channel *channel;
	if (!id || !(event = stand_in_allocate(1, sizeof *event)))
		return;
	event->event.id = request ? &request->id : &id->id;
	event->event.listen_id = request ? &id->id : NULL;
	event->event.event = type;
	event->event.status = status;
	if (sent) {
		struct rdma_conn_param *told = &event->event.param.conn;
		*told = *sent;
		told->responder_resources = sent->initiator_depth;
		told->initiator_depth = sent->responder_resources;
		if (sent->private_data_len)
			memcpy(event->data, sent->private_data, sent->private_data_len);
		told->private_data = event->data;
		told->private_data_len = room;
	}
	channel = (struct channel *)id->id.channel;
	*channel->end = event;
	channel->end = &event->next;
	if (write(channel->channel.fd, &one, sizeof one) < 0)
		abort(); /* 2^64 events */
}

/* ---- identifiers */

static struct identifier *create(struct rdma_event_channel *channel, void *context)
{
	struct identifier *created = stand_in_allocate(1, sizeof *created);
	if (!created)
		return NULL;
	created->id.channel = channel;
	created->id.context = context;
	created->id.ps = RDMA_PS_TCP;
	created->id.qp_type = IBV_QPT_RC;
	return created;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **created, void *context,
		   enum rdma_port_space space)
{
	struct identifier *id;
	if (space != RDMA_PS_TCP || !channel)
		return fails(EINVAL);
	id = create(channel, context);
	if (!id)
		return fails(ENOMEM);
	*created = &id->id;
	return 0;
}

static void refuse(struct identifier *id, const struct rdma_conn_param *with)
{
	tell(id->peer, RDMA_CM_EVENT_REJECTED, REJECTED_BY_PROGRAM, with, REJECT_BYTES, NULL);
	id->state = OVER;
}

static void forget(struct identifier *id);

/* The caller holds the lock. */
static void destroy(struct identifier *id)
{
	static const struct rdma_conn_param nothing;
	if (id->state == ESTABLISHED)
		tell(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, NULL);
	else if (id->state != IDLE && id->state != OVER)
		refuse(id, &nothing);
	if (id->peer)
		id->peer->peer = NULL;
	forget(id);
	stand_in_release(id);
}

/* Nothing names an identifier any more. */
static void forget(struct identifier *id)
{
	struct identifier **link = &listeners;
	struct event *event = ((struct channel *)id->id.channel)->first;
	for (; event; event = event->next) {
		if (event->gone)
			continue;
		if (event->event.listen_id == &id->id) {
			event->gone = true;
			destroy((struct identifier *)event->event.id); /* a request that nobody took */
		} else if (event->event.id == &id->id) {
			event->gone = true;
		}
	}
	while (*link && *link != id)
		link = &(*link)->listener;
	if (*link)
		*link = id->listener;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&lock);
	destroy((struct identifier *)id);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	(void)id;
	(void)name;
	(void)value;
	(void)size;
	return level == RDMA_OPTION_ID ? 0 : fails(ENOSYS);
}

/* ---- addresses */

/* The port of an address: at the same place for both families. */
static in_port_t *port_of(struct sockaddr *address)
{
	return &((struct sockaddr_in *)address)->sin_port;
}

static bool copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
	size_t size = from->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
		      : from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						    : 0;
	memset(to, 0, sizeof *to);
	memcpy(to, from, size);
	return size != 0;
}

static bool is_any(struct sockaddr *address)
{
	return address->sa_family == AF_INET
		       ? ((struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY
		       : IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)address)->sin6_addr);
}

static bool same_host(struct sockaddr *one, struct sockaddr *other)
{
	if (one->sa_family != other->sa_family)
		return false;
	return one->sa_family == AF_INET
		       ? ((struct sockaddr_in *)one)->sin_addr.s_addr ==
				 ((struct sockaddr_in *)other)->sin_addr.s_addr
		       : IN6_ARE_ADDR_EQUAL(&((struct sockaddr_in6 *)one)->sin6_addr,
					    &((struct sockaddr_in6 *)other)->sin6_addr);
}

/* The caller holds the lock. */
static struct identifier *listener_at(struct sockaddr *address)
{
	struct identifier *one = listeners;
	for (; one; one = one->listener) {
		struct sockaddr *at = rdma_get_local_addr(&one->id);
		if (*port_of(at) == *port_of(address) && (is_any(at) || same_host(at, address)))
			break;
	}
	return one;
}

static void use_device(struct identifier *id)
{
	if (!of_identifiers.device) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		if (!list)
			return; /* no name: the program finds that out */
		of_identifiers.device = list[0];
		ibv_free_device_list(list);
	}
	id->id.verbs = &of_identifiers;
	id->id.port_num = 1;
}

/* The caller holds the lock. */
static void choose_port(struct identifier *id)
{
	in_port_t *port = port_of(rdma_get_local_addr(&id->id));
	if (*port == 0)
		*port = htons((uint16_t)(FIRST_PORT + ports++ % PORTS));
}

int rdma_bind_addr(struct rdma_cm_id *bound, struct sockaddr *address)
{
	struct identifier *id = (struct identifier *)bound;
	if (!copy(&bound->route.addr.src_storage, address))
		return fails(EAFNOSUPPORT);
	pthread_mutex_lock(&lock);
	choose_port(id);
	if (!is_any(address))
		use_device(id);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_listen(struct rdma_cm_id *listening, int backlog)
{
	struct identifier *id = (struct identifier *)listening;
	int result = 0;
	(void)backlog;
	pthread_mutex_lock(&lock);
	if (listener_at(rdma_get_local_addr(listening))) {
		result = fails(EADDRINUSE);
	} else {
		id->listener = listeners;
		listeners = id;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int rdma_resolve_addr(struct rdma_cm_id *resolved, struct sockaddr *from, struct sockaddr *to,
		      int milliseconds)
{
	struct identifier *id = (struct identifier *)resolved;
	(void)milliseconds;
	if (!copy(&resolved->route.addr.dst_storage, to))
		return fails(EAFNOSUPPORT);
	pthread_mutex_lock(&lock);
	if (from) {
		copy(&resolved->route.addr.src_storage, from);
	} else if (rdma_get_local_addr(resolved)->sa_family == 0) {
		copy(&resolved->route.addr.src_storage, to);
		*port_of(rdma_get_local_addr(resolved)) = 0;
	}
	choose_port(id);
	use_device(id);
	tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0, NULL);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int milliseconds)
{
	(void)milliseconds;
	pthread_mutex_lock(&lock);
	tell((struct identifier *)id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0, NULL);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- connections */

int rdma_connect(struct rdma_cm_id *connected, struct rdma_conn_param *with)
{
	static const struct rdma_conn_param nothing;
	struct identifier *id = (struct identifier *)connected;
	struct identifier *listener, *request = NULL;
	int result = 0;
	if (with->private_data_len > REQUEST_BYTES)
		return fails(EINVAL);
	pthread_mutex_lock(&lock);
	id->sent = *with;
	id->sent.private_data = NULL; /* is the caller's */
	listener = listener_at(rdma_get_peer_addr(connected));
	if (!listener) {
		id->state = OVER;
		tell(id, RDMA_CM_EVENT_REJECTED, REJECTED_NO_LISTENER, &nothing, REJECT_BYTES, NULL);
	} else if ((request = create(listener->id.channel, listener->id.context))) {
		request->id.route.addr.src_storage = connected->route.addr.dst_storage;
		request->id.route.addr.dst_storage = connected->route.addr.src_storage;
		use_device(request);
		request->state = REQUESTED;
		request->peer = id;
		id->peer = request;
		id->state = CONNECTING;
		tell(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, with, REQUEST_BYTES, request);
	} else {
		result = fails(ENOMEM);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int rdma_accept(struct rdma_cm_id *accepted, struct rdma_conn_param *with)
{
	struct identifier *id = (struct identifier *)accepted;
	int result = 0;
	if (with->private_data_len > REPLY_BYTES)
		return fails(EINVAL);
	pthread_mutex_lock(&lock);
	if (id->state != REQUESTED) {
		result = fails(EINVAL);
	} else {
		id->sent = *with;
		id->sent.private_data = NULL;
		id->state = ACCEPTED;
		if (id->peer)
			id->peer->state = ANSWERED;
		tell(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, with, REPLY_BYTES, NULL);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int rdma_establish(struct rdma_cm_id *established)
{
	struct identifier *id = (struct identifier *)established;
	int result = 0;
	pthread_mutex_lock(&lock);
	if (id->state != ANSWERED) {
		result = fails(EINVAL);
	} else {
		id->state = ESTABLISHED;
		if (id->peer)
			id->peer->state = ESTABLISHED;
		tell(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0, NULL);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	(void)event;
	return fails(EISCONN); /* nothing is lost here: the peer has said so itself */
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	struct rdma_conn_param with = {.private_data = data, .private_data_len = length};
	if (length > REJECT_BYTES)
		return fails(EINVAL);
	pthread_mutex_lock(&lock);
	refuse((struct identifier *)id, &with);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *disconnected)
{
	struct identifier *id = (struct identifier *)disconnected;
	int result = 0;
	pthread_mutex_lock(&lock);
	if (id->state != ESTABLISHED && id->state != ACCEPTED) {
		result = fails(EINVAL);
	} else if (!id->disconnected) {
		id->disconnected = true; /* the first asks, the second answers */
		tell(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, NULL);
		if (!id->peer)
			tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, NULL);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int rdma_init_qp_attr(struct rdma_cm_id *of, struct ibv_qp_attr *attributes, int *mask)
{
	struct identifier *id = (struct identifier *)of;
	const struct rdma_conn_param *there;
	int result = 0;
	pthread_mutex_lock(&lock);
	there = id->peer ? &id->peer->sent : NULL;
	switch (attributes->qp_state) {
	case IBV_QPS_INIT:
		attributes->pkey_index = 0;
		attributes->port_num = 1;
		attributes->qp_access_flags = 0;
		*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
		break;
	case IBV_QPS_RTR:
		if (!there) {
			result = fails(EINVAL);
			break;
		}
		memset(&attributes->ah_attr, 0, sizeof attributes->ah_attr);
		attributes->ah_attr.is_global = 1;
		attributes->ah_attr.port_num = 1;
		attributes->path_mtu = IBV_MTU_4096;
		attributes->dest_qp_num = there->qp_num;
		attributes->rq_psn = 0;
		attributes->max_dest_rd_atomic = id->sent.responder_resources;
		attributes->min_rnr_timer = 0;
		*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTS:
		attributes->sq_psn = 0;
		attributes->timeout = 19;
		attributes->retry_cnt = 7;
		attributes->rnr_retry = there ? there->rnr_retry_count : 7;
		attributes->max_rd_atomic = id->sent.initiator_depth;
		*mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	default:
		result = fails(EINVAL);
	}
	pthread_mutex_unlock(&lock);
	return result;
}
