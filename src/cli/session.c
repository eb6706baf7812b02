#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

/* The place of a key in a config file as "file:line: key: ", or "" if it is not from one. */
static void origin_of(const mk_config *config, const char *key, char *out, size_t capacity)
{
    const mk_config_origin *origin = &config->origins[mk_config_find(key)];
    if (origin->line)
        mk_format(out, capacity, "%s:%u: %s: ", origin->file, origin->line, key);
    else
        out[0] = 0;
}

int cli_open(cli_session *session, const mk_config *config)
{
    session->config = config;
    session->ctx = NULL;
    if (!config->model) {
        cli_error("no model: give -m FILE, or model = FILE in a config file");
        return CLI_USAGE;
    }
    mk_error err;
    if (mk_model_open(&session->model, config->model, (mk_load)config->load, &err)) {
        char origin[512];
        origin_of(config, "model", origin, sizeof origin);
        return cli_error("%s%s", origin, err.text);
    }
    mk_model_get_info(&session->model, &session->info);
    return CLI_DONE;
}

int cli_open_runnable(cli_session *session, const mk_config *config)
{
    int status = cli_open(session, config);
    if (status == CLI_DONE && session->info.vocab_only) {
        status = cli_error("%s holds a vocabulary alone: there is no model to run", config->model);
        cli_close(session);
    }
    return status;
}

void cli_set_params(cli_session *session)
{
    const mk_config *config = session->config;
    mk_params params = mk_params_default(&session->model);
    if (config->context)
        params.context = config->context;
    if (config->batch)
        params.batch = config->batch;
    if (config->threads)
        params.threads = config->threads;
    params.kv = (mk_kv_type)config->kv;
    params.isa = config->isa;
    session->params = params;
}

void cli_say_kernels(const char *label)
{
    bool all = true;
    cli_say("%s", label);
    for (size_t i = 0; mk_isa_name(i); i++) {
        bool available = mk_isa_available(mk_isa_name(i));
        cli_say(available ? " %s" : " (%s)", mk_isa_name(i));
        all = all && available;
    }
    cli_say(all ? "\n" : "; in parentheses: not on this CPU\n");
}

static void plan_line(void (*line)(const char *, ...), const char *label, uint64_t bytes, const char *why)
{
    char size[32];
    size_t length = mk_format(size, sizeof size, "%M", bytes);
    line(*why ? "  %s%s%s  %s" : "  %s%s%s", label, &"              "[length < 14 ? length : 14], size, why);
}

void cli_say_plan(const mk_memory_plan *plan, const mk_params *params, void (*line)(const char *, ...))
{
    char why[96];
    mk_format(why, sizeof why, "context %u, %s", params->context, params->kv == MK_KV_Q4 ? "q4" : "q8");
    plan_line(line, "KV cache   ", plan->kv_cache, why);
    mk_format(why, sizeof why, "batch %u", params->batch);
    plan_line(line, "activations", plan->activations, why);
    plan_line(line, "logits     ", plan->logits, "");
    mk_format(why, sizeof why, params->threads == 1 ? "%u thread" : "%u threads", params->threads);
    plan_line(line, "workers    ", plan->workers, why);
    plan_line(line, "other      ", plan->other, "");
    plan_line(line, "arena      ", plan->total, "all together");
}

/* The plan is above the cap: what is needed, and what would fit. */
static int refuse_plan(const cli_session *session)
{
    uint64_t cap = session->config->memory;
    char origin[512];
    origin_of(session->config, "memory", origin, sizeof origin);
    cli_error("%smemory = %U bytes (%M) is too little: %U bytes (%M) are needed", origin, cap, cap,
              session->plan.total, session->plan.total);
    cli_say_plan(&session->plan, &session->params, cli_note);
    uint32_t longest = mk_longest_context(&session->model, &session->params, cap);
    if (longest) {
        cli_note("The longest context that fits is %u: --context %u, or context = %u in the config file",
                 longest, longest, longest);
        mk_params smaller = session->params;
        smaller.kv = MK_KV_Q4;
        uint32_t longer = mk_longest_context(&session->model, &smaller, cap);
        if (longer > longest)
            cli_note("With a smaller KV cache, --kv q4 or kv = q4, it is %u", longer);
        return CLI_FAILED;
    }
    mk_params least = session->params;
    mk_memory_plan plan;
    least.context = 1;
    if (mk_plan_memory(&session->model, &least, &plan, NULL) == MK_OK)
        cli_note("No context fits: even one token needs %M. A smaller batch or fewer threads need less",
                 plan.total);
    return CLI_FAILED;
}

/* The library refused the parameters: names the line of the config file that is to blame, if one is. */
static int refuse_params(const cli_session *session, const mk_error *err)
{
    const mk_config *config = session->config;
    char origin[512] = "";
    if (config->isa && !mk_isa_available(config->isa))
        origin_of(config, "isa", origin, sizeof origin);
    else if (config->context > session->info.context)
        origin_of(config, "context", origin, sizeof origin);
    return cli_error("%s%s", origin, err->text);
}

int cli_plan(cli_session *session)
{
    mk_error err;
    if (mk_plan_memory(&session->model, &session->params, &session->plan, &err))
        return refuse_params(session, &err);
    if (session->config->memory && session->plan.total > session->config->memory)
        return refuse_plan(session);
    return CLI_DONE;
}

/* The number of KiB behind a name in /proc/meminfo, as bytes; 0 if it is not there. */
static uint64_t meminfo_value(const char *text, const char *name)
{
    const char *p = strstr(text, name);
    uint64_t kibibytes = 0;
    if (!p)
        return 0;
    for (p += strlen(name); *p == ' '; p++)
        ;
    for (; *p >= '0' && *p <= '9' && kibibytes < UINT64_MAX >> 16; p++)
        kibibytes = kibibytes * 10 + (uint64_t)(*p - '0');
    return kibibytes << 10;
}

uint64_t cli_available_memory(void)
{
    char text[4096];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UINT64_MAX;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return UINT64_MAX;
    text[length] = 0;
    uint64_t available = meminfo_value(text, "MemAvailable:");
    return available ? available + meminfo_value(text, "SwapFree:") : UINT64_MAX;
}

void *cli_map(uint64_t bytes, const char *purpose)
{
    uint64_t available = cli_available_memory();
    if (bytes > available) {
        cli_error("%s needs %M, and the system has %M left, swap included", purpose, bytes, available);
        return NULL;
    }
    void *p = MAP_FAILED;
    errno = ENOMEM;
    if (bytes <= SIZE_MAX)
        p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        cli_error("%s needs %M: %e", purpose, bytes, errno);
        return NULL;
    }
    return p;
}

int cli_create(cli_session *session, void *arena)
{
    mk_error err;
    if (mk_context_create(&session->model, &session->params, arena, (size_t)session->plan.total, &session->ctx,
                          &err))
        return refuse_params(session, &err);
    char age[32];
    cli_note("ready: %s ms, arena %U bytes, image %U bytes, isa %s, threads %u, batch %u, context %u, kv %s",
             cli_fixed(age, cli_age() * 1e3, 1), session->plan.total, session->info.image_bytes,
             mk_context_isa(session->ctx), session->params.threads, session->params.batch,
             session->params.context, session->params.kv == MK_KV_Q4 ? "q4" : "q8");
    return CLI_DONE;
}

void cli_close(cli_session *session)
{
    if (session->ctx)
        mk_context_destroy(session->ctx);
    mk_model_close(&session->model);
}
