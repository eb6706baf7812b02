/* count_plugin.c - a plugin for QEMU that prints how many guest instructions were executed. It declares the few
 * functions that it needs of QEMU's plugin interface, whose header distributions leave out. PLUGIN_VERSION is
 * the version of that interface that QEMU asks for. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*translated)(uint64_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                          void (*executed)(unsigned vcpu, void *data), int flags, void *data);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*at_exit)(uint64_t id, void *data), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

int qemu_plugin_version = PLUGIN_VERSION;
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

static uint64_t count;

static void executed(unsigned vcpu, void *data)
{
    (void)vcpu;
    count += (uintptr_t)data;
}

static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, (void *)qemu_plugin_tb_n_insns(block));
}

static void at_exit(uint64_t id, void *data)
{
    (void)id;
    (void)data;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
