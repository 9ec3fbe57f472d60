/*
 * The least that a JNI library can be: dev.verbena.bench.RawJni calls the two functions of the
 * data path by it, with addresses of structs that it has written itself.
 */
#include <infiniband/verbs.h>
#include <jni.h>
#include <stdint.h>

static void *pointer(jlong address)
{
	return (void *)(uintptr_t)address;
}

JNIEXPORT jint JNICALL Java_dev_verbena_bench_RawJni_post(JNIEnv *environment,
								    jclass class, jlong queue_pair,
								    jlong request, jlong refused)
{
	(void)environment;
	(void)class;
	return ibv_post_send(pointer(queue_pair), pointer(request), pointer(refused));
}

JNIEXPORT jint JNICALL Java_dev_verbena_bench_RawJni_poll(JNIEnv *environment, jclass class,
								  jlong queue, jint count,
								  jlong completions)
{
	(void)environment;
	(void)class;
	return ibv_poll_cq(pointer(queue), count, pointer(completions));
}
