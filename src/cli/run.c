/* makarna run - one answer to one prompt. From the line "ready" on nothing is allocated: the arena, the
 * prompt's tokens and the text of a token lie in one mapping that was made before. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bytes.h"

/* A prompt of so many bytes is always tokenized, so that the answer to a too long one names its tokens. */
#define ALWAYS_TOKENIZED (1u << 20)

typedef struct run_state {
    cli_session session;
    bool raw;
    cli_text prompt;
    void *arena; /* also the tokenizer's scratch, before there is a context */
    uint64_t scratch_bytes;
    int32_t *ids; /* of the prompt */
    uint64_t id_capacity;
    size_t id_count;
    char *text; /* of one token */
    mk_rng rng;
} run_state;

typedef enum run_end { RUN_COMPLETE, RUN_CONTEXT_FULL, RUN_INTERRUPTED, RUN_FAILED } run_end;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The first Ctrl-C stops the answer, the second the program. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

static void choose_format(run_state *s)
{
    s->raw = s->session.config->raw;
    if (!s->raw && !s->session.info.has_chat) {
        cli_note("this model has no chat format: it continues the prompt as plain text");
        s->raw = true;
    }
}

static int read_prompt(run_state *s, const char *operand)
{
    uint32_t context = s->session.params.context;
    uint64_t longest = mk_detokenize_capacity(&s->session.model); /* bytes of one token */
    longest += longest == 0;
    uint64_t limit = context * longest;
    if (limit < ALWAYS_TOKENIZED)
        limit = ALWAYS_TOKENIZED;
    double begin = cli_now();
    int status = cli_read_operand(&s->prompt, operand, limit);
    cli_deduct(cli_now() - begin);
    if (status == CLI_DONE && s->prompt.more)
        return cli_error("the prompt has more than %U bytes, so more than %U tokens; the context holds %u",
                         limit, limit / longest, context);
    return status;
}

static size_t list_messages(const run_state *s, mk_message messages[2])
{
    const char *system = s->session.config->system;
    size_t count = 0;
    if (system)
        messages[count++] = (mk_message){MK_SYSTEM, system, strlen(system)};
    messages[count++] = (mk_message){MK_USER, s->prompt.data, s->prompt.size};
    return count;
}

/* Sets the sizes of what depends on the prompt's length. */
static bool size_buffers(run_state *s)
{
    const mk_model *model = &s->session.model;
    if (s->raw) {
        s->scratch_bytes = mk_tokenize_scratch_size(model, s->prompt.size);
        s->id_capacity = (uint64_t)s->prompt.size + 3;
    } else {
        mk_message messages[2];
        size_t count = list_messages(s, messages), bytes = s->prompt.size;
        if (count == 2 && __builtin_add_overflow(bytes, messages[0].bytes, &bytes))
            return false;
        s->scratch_bytes = mk_chat_scratch_size(model, count, bytes);
        s->id_capacity = mk_chat_capacity(model, count, bytes);
    }
    return s->scratch_bytes && s->id_capacity;
}

static int map_buffers(run_state *s)
{
    if (!size_buffers(s))
        return cli_error("a prompt of %U bytes is too long for this machine", (uint64_t)s->prompt.size);
    uint64_t arena = s->session.plan.total > s->scratch_bytes ? s->session.plan.total : s->scratch_bytes;
    uint64_t ids = mk_align_up(s->id_capacity * sizeof(int32_t), 64);
    uint64_t text = mk_detokenize_capacity(&s->session.model) + 64;
    arena = mk_align_up(arena, 64);
    uint8_t *region = cli_map(arena + ids + text, "the working memory");
    if (!region)
        return CLI_FAILED;
    s->arena = region;
    s->ids = (int32_t *)(void *)(region + arena);
    s->text = (char *)region + arena + ids;
    return CLI_DONE;
}

static int tokenize_prompt(run_state *s)
{
    const mk_model *model = &s->session.model;
    mk_error err;
    mk_status status;
    if (s->raw) {
        status = mk_tokenize(model, s->prompt.data, s->prompt.size, MK_TOKENIZE_BOS, s->ids,
                             (size_t)s->id_capacity, &s->id_count, s->arena, (size_t)s->scratch_bytes, &err);
    } else {
        mk_message messages[2];
        size_t count = list_messages(s, messages);
        status = mk_chat_tokenize(model, messages, count, s->ids, (size_t)s->id_capacity, &s->id_count,
                                  s->arena, (size_t)s->scratch_bytes, &err);
    }
    if (status)
        return cli_error("%s", err.text);
    if (s->id_count == 0)
        return cli_error("the prompt is empty, and this model has no token to begin a text with");
    if (s->id_count > s->session.params.context)
        return cli_error(
            "the prompt has %U tokens, the context holds %u: shorten it, or give a longer context (the "
            "model's limit is %u)",
            (uint64_t)s->id_count, s->session.params.context, s->session.info.context);
    return CLI_DONE;
}

static int seed_generator(run_state *s)
{
    const mk_config *config = s->session.config;
    uint64_t seed = config->seed;
    if (seed == MK_CONFIG_SEED_RANDOM) {
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            return cli_error("the system gives no random seed: give a number");
        seed >>= 1;
        if (config->sampling.temperature > 0)
            cli_note("seed: %U", seed);
    }
    s->rng = mk_rng_seed(seed);
    return CLI_DONE;
}

/* Everything up to "ready". */
static int prepare(run_state *s, const char *operand)
{
    int status;
    choose_format(s);
    cli_set_params(&s->session);
    if ((status = cli_plan(&s->session)) || (status = read_prompt(s, operand)) || (status = map_buffers(s)) ||
        (status = tokenize_prompt(s)) || (status = seed_generator(s)))
        return status;
    cli_release(&s->prompt);
    catch_interrupt();
    return cli_create(&s->session, s->arena);
}

static run_end fail(const mk_error *err)
{
    cli_error("%s", err->text);
    return RUN_FAILED;
}

/* A batch at a time, so that Ctrl-C does not wait for a long prompt. */
static run_end feed_prompt(run_state *s, size_t *fed)
{
    mk_error err;
    for (*fed = 0; *fed < s->id_count;) {
        size_t count = s->id_count - *fed;
        if (count > s->session.params.batch)
            count = s->session.params.batch;
        if (mk_eval(s->session.ctx, s->ids + *fed, count, &err))
            return fail(&err);
        *fed += count;
        if (interrupted)
            return RUN_INTERRUPTED;
    }
    return RUN_COMPLETE;
}

static bool put_text(size_t size, const char *text, char *last)
{
    if (size)
        *last = text[size - 1];
    return cli_put(text, size) && cli_flush();
}

/* Streams the answer; *made counts its tokens. */
static run_end generate(run_state *s, size_t *made)
{
    const mk_config *config = s->session.config;
    mk_context *ctx = s->session.ctx;
    mk_detokenizer decoder = {.started = s->raw && s->id_count > 1}; /* raw: the first token goes on a text */
    run_end end = RUN_COMPLETE;
    char last = '\n';
    mk_error err;
    for (*made = 0; *made < config->n;) {
        int32_t id = mk_sample(ctx, &config->sampling, &s->rng);
        if (mk_is_end(&s->session.model, id))
            break;
        ++*made;
        if (!put_text(mk_detokenize(&s->session.model, &decoder, id, s->text), s->text, &last))
            return RUN_FAILED;
        if (*made == config->n)
            break;
        if (mk_position(ctx) >= s->session.params.context) {
            end = RUN_CONTEXT_FULL;
            break;
        }
        if (mk_eval(ctx, &id, 1, &err)) {
            end = fail(&err);
            break;
        }
        if (interrupted) {
            end = RUN_INTERRUPTED;
            break;
        }
    }
    bool written = put_text(mk_detokenize_end(&decoder, s->text), s->text, &last);
    if (written && last != '\n')
        written = cli_put("\n", 1) && cli_flush();
    return written ? end : RUN_FAILED;
}

static void note_timing(const char *what, size_t tokens, size_t computed, double seconds)
{
    char time[32], rate[32];
    cli_fixed(time, seconds, 3);
    cli_fixed(rate, seconds > 0 ? (double)computed / seconds : 0, 2);
    cli_note(computed ? "%s: %U tokens in %s s, %s tokens/s" : "%s: %U tokens in %s s", what, (uint64_t)tokens,
             time, rate);
}

static int answer(run_state *s)
{
    size_t fed = 0, made = 0;
    double begin = cli_now();
    run_end end = feed_prompt(s, &fed);
    double fed_at = cli_now();
    if (end == RUN_COMPLETE)
        end = generate(s, &made);
    double made_at = cli_now();
    if (end == RUN_FAILED)
        return CLI_FAILED;
    if (end == RUN_CONTEXT_FULL)
        cli_note("the context of %u tokens is full: the answer ends here", s->session.params.context);
    if (end == RUN_INTERRUPTED)
        cli_note("stopped");
    note_timing("prompt", fed, fed, fed_at - begin);
    size_t computed = mk_position(s->session.ctx) - fed; /* the prompt gave the first, the last may give none */
    note_timing("answer", made, computed, made_at - fed_at);
    return CLI_DONE;
}

static int run(int argc, char **argv)
{
    mk_config config;
    const char *operand;
    int status;
    if (!cli_parse(&cli_run, argc, argv, &config, NULL, &operand, &status))
        return status;
    run_state s = {0};
    if ((status = cli_open_runnable(&s.session, &config)))
        return status;
    status = prepare(&s, operand);
    if (status == CLI_DONE)
        status = answer(&s);
    cli_close(&s.session);
    return status;
}

const cli_command cli_run = {
    .name = "run",
    .operand = "[PROMPT]",
    .summary = "Answers one prompt",
    .details =
        "The prompt is PROMPT, or standard input (without its last line end) if that is absent or \"-\".\n"
        "The answer is streamed to standard output, timings go to standard error. Ctrl-C stops the\n"
        "answer and is no failure; a second one ends the program.\n",
    .example = "  makarna run -m smollm2-q4.mkn --temp 0.7 --top-k 40 -n 200 \"Why is the sky blue?\"\n"
               "  makarna run -c pi5.conf --raw < story.txt\n",
    .sections =
        MK_SECTION_MODEL | MK_SECTION_ENGINE | MK_SECTION_MEMORY | MK_SECTION_CHAT | MK_SECTION_SAMPLING,
    .run = run,
};
