/*
 * A plugin of QEMU's that counts the instructions which an emulated machine executes, in its kernel
 * and in its processes. Emulated time says little: it depends on how QEMU's own tables happen to
 * fit. What is executed is the same each time, and is what hardware would execute.
 *
 * Each time that the guest runs the program "mark", the file that was named by to=FILE has a line
 * with the instructions since the time before: the kernel's, a space, the processes'.
 *
 * QEMU's header for plugins is in no package of distributions; what is used of its first version
 * is declared here. QEMU offers these to what it loads.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

#define EXPORTED __attribute__((visibility("default")))
#define PROCESSORS 256
#define NO_REGISTERS 0 /* QEMU_PLUGIN_CB_NO_REGS */

typedef uint64_t plugin_id;
struct block; /* QEMU translates straight-line code block by block */
struct instruction;

typedef void when_translated(plugin_id id, struct block *block);
typedef void when_executed(unsigned int processor, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, when_translated *callback);
void qemu_plugin_register_vcpu_tb_exec_cb(struct block *block, when_executed *callback, int flags,
					  void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct instruction *instruction,
					    when_executed *callback, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct block *block);
uint64_t qemu_plugin_tb_vaddr(const struct block *block);
struct instruction *qemu_plugin_tb_get_insn(const struct block *block, size_t index);
const void *qemu_plugin_insn_data(const struct instruction *instruction);
size_t qemu_plugin_insn_size(const struct instruction *instruction);

EXPORTED int qemu_plugin_version = 1;

/* Each written by its own processor's thread only; those who add up look at them meanwhile. */
static struct {
	_Alignas(64) uint64_t kernel;
	uint64_t processes;
} executed[PROCESSORS];

static const unsigned char mark[] = {MARK};
static uint64_t kernel_before, processes_before;
static char *file_name;

static void in_kernel(unsigned int processor, void *instructions)
{
	executed[processor % PROCESSORS].kernel += (uintptr_t)instructions;
}

static void in_process(unsigned int processor, void *instructions)
{
	executed[processor % PROCESSORS].processes += (uintptr_t)instructions;
}

/* One at a time: the guest runs one "mark" after the other. */
static void marked(unsigned int processor, void *data)
{
	uint64_t kernel = 0, processes = 0;
	FILE *file = fopen(file_name, "a");
	(void)processor;
	(void)data;
	for (int i = 0; i < PROCESSORS; i++) {
		kernel += executed[i].kernel;
		processes += executed[i].processes;
	}
	if (!file || fprintf(file, "%" PRIu64 " %" PRIu64 "\n", kernel - kernel_before,
			     processes - processes_before) < 0 || fclose(file))
		perror(file_name);
	kernel_before = kernel;
	processes_before = processes;
}

static void translated(plugin_id id, struct block *block)
{
	size_t count = qemu_plugin_tb_n_insns(block);
	/* x86-64's kernel has the upper half of all addresses. */
	bool kernel = qemu_plugin_tb_vaddr(block) >> 63;
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(block, kernel ? in_kernel : in_process, NO_REGISTERS,
					     (void *)(uintptr_t)count);
	for (size_t i = 0; !kernel && i < count; i++) {
		struct instruction *one = qemu_plugin_tb_get_insn(block, i);
		if (qemu_plugin_insn_size(one) == sizeof mark &&
		    !memcmp(qemu_plugin_insn_data(one), mark, sizeof mark))
			qemu_plugin_register_vcpu_insn_exec_cb(one, marked, NO_REGISTERS, NULL);
	}
}

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments);

int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments)
{
	(void)info;
	for (int i = 0; i < count; i++)
		if (!strncmp(arguments[i], "to=", 3))
			file_name = strdup(arguments[i] + 3);
	if (!file_name) {
		fprintf(stderr, "count: to=FILE is missing\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
