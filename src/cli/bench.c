/* makarna bench - how fast prompts are read and answers written, as mean and spread of repeated runs. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

#define MAX_RUNS 1000u

typedef struct bench_options {
    uint32_t prompt, generate, repetitions;
    bool json;
} bench_options;

#define OPTION(field) offsetof(bench_options, field)
static const mk_option options[] = {
    {"prompt", 'p', MK_OPTION_COUNT, MK_SECTION_COMMAND, OPTION(prompt), 0, 1u << 24, NULL, 0, "N",
     "tokens of the prompt, 512 if not given; 0: none"},
    {"n", 'n', MK_OPTION_COUNT, MK_SECTION_COMMAND, OPTION(generate), 0, 1u << 24, NULL, 0, "N",
     "tokens to generate one by one, 128 if not given; 0: none"},
    {"repetitions", 'r', MK_OPTION_COUNT, MK_SECTION_COMMAND, OPTION(repetitions), 1, MAX_RUNS, NULL, 0, "N",
     "runs of each, 5 if not given"},
    {"json", 0, MK_OPTION_FLAG, MK_SECTION_COMMAND, OPTION(json), 0, 0, NULL, 0, NULL, "one JSON object"},
};

typedef struct series {
    uint32_t tokens;
    uint32_t runs;
    double rates[MAX_RUNS]; /* tokens per second */
    double mean, deviation; /* of the rates; the deviation is that of a sample */
} series;

/* Tokens that are no text: what is measured does not depend on them. */
static void fill_tokens(int32_t *ids, uint32_t count, uint32_t vocabulary)
{
    uint32_t x = 1;
    for (uint32_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)((x >> 8) % vocabulary);
    }
}

/* Evaluates `count` tokens from an empty context, `step` at a time; the time taken goes to *seconds. */
static int run_once(cli_session *session, const int32_t *ids, uint32_t count, uint32_t step, double *seconds)
{
    mk_error err;
    double begin = cli_now();
    if (mk_rewind(session->ctx, 0, &err))
        return cli_error("%s", err.text);
    for (uint32_t done = 0; done < count;) {
        uint32_t now = count - done < step ? count - done : step;
        if (mk_eval(session->ctx, ids + done, now, &err))
            return cli_error("%s", err.text);
        done += now;
    }
    *seconds = cli_now() - begin;
    return CLI_DONE;
}

static void summarize(series *s)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < s->runs; i++)
        sum += s->rates[i];
    s->mean = s->runs ? sum / s->runs : 0;
    for (uint32_t i = 0; i < s->runs; i++)
        squares += (s->rates[i] - s->mean) * (s->rates[i] - s->mean);
    s->deviation = s->runs > 1 ? sqrt(squares / (s->runs - 1)) : 0;
}

static int measure(cli_session *session, const int32_t *ids, uint32_t step, uint32_t repetitions, series *s)
{
    double seconds;
    uint32_t warm = s->tokens < 2 * step ? s->tokens : 2 * step; /* pages in, threads awake */
    int status = s->tokens ? run_once(session, ids, warm, step, &seconds) : CLI_DONE;
    for (s->runs = 0; status == CLI_DONE && s->tokens && s->runs < repetitions; s->runs++) {
        status = run_once(session, ids, s->tokens, step, &seconds);
        s->rates[s->runs] = s->tokens / seconds;
    }
    summarize(s);
    return status;
}

static void say_series(const char *label, const series *s)
{
    char mean[32], deviation[32];
    if (s->tokens)
        cli_say("%s %u tokens: %s tokens/s, standard deviation %s, %u runs\n", label, s->tokens,
                cli_fixed(mean, s->mean, 2), cli_fixed(deviation, s->deviation, 2), s->runs);
}

static void say_json_series(const char *name, const series *s)
{
    char number[32];
    cli_say(", \"%s\": {\"tokens\": %u, ", name, s->tokens);
    cli_say("\"tokens_per_second\": %s, ", cli_fixed(number, s->mean, 3));
    cli_say("\"standard_deviation\": %s, \"runs\": [", cli_fixed(number, s->deviation, 3));
    for (uint32_t i = 0; i < s->runs; i++)
        cli_say("%s%s", i ? ", " : "", cli_fixed(number, s->rates[i], 3));
    cli_say("]}");
}

/* A JSON string; bytes that are no valid UTF-8 become '?'. */
static void say_json_string(const char *text)
{
    cli_put("\"", 1);
    while (*text) {
        size_t length = cli_character(text, strlen(text));
        if (*text == '"' || *text == '\\')
            cli_put("\\", 1);
        if (length && (unsigned char)*text >= 0x20)
            cli_put(text, length);
        else
            cli_put("?", 1);
        text += length ? length : 1;
    }
    cli_put("\"", 1);
}

static void say_json(const cli_session *session, const series *prompt, const series *generation)
{
    cli_say("{\"version\": \"%s\", \"image\": ", MK_VERSION);
    say_json_string(session->config->model);
    cli_say(", \"name\": ");
    say_json_string(session->info.name);
    cli_say(", \"layer_type\": \"%s\", \"image_bytes\": %U, \"arena_bytes\": %U", session->info.layer_type,
            session->info.image_bytes, session->plan.total);
    cli_say(", \"isa\": \"%s\", \"threads\": %u, \"batch\": %u, \"context\": %u, \"kv\": \"%s\"",
            mk_context_isa(session->ctx), session->params.threads, session->params.batch,
            session->params.context, session->params.kv == MK_KV_Q4 ? "q4" : "q8");
    say_json_series("prompt", prompt);
    say_json_series("generation", generation);
    cli_say("}\n");
}

static int bench_session(cli_session *session, const bench_options *own)
{
    static series prompt, generation;
    prompt.tokens = own->prompt;
    generation.tokens = own->generate;
    uint32_t longest = own->prompt > own->generate ? own->prompt : own->generate;
    cli_set_params(session);
    if (!session->config->context && longest)
        session->params.context = longest;
    if (session->params.context < longest) {
        cli_error("%u tokens do not fit into a context of %u", longest, session->params.context);
        return CLI_USAGE;
    }
    int status = cli_plan(session);
    if (status)
        return status;
    uint64_t arena = mk_align_up(session->plan.total, 64);
    uint8_t *region = cli_map(arena + (uint64_t)longest * sizeof(int32_t) + 64, "the working memory");
    if (!region)
        return CLI_FAILED;
    int32_t *ids = (int32_t *)(void *)(region + arena);
    fill_tokens(ids, longest, session->info.vocabulary);
    if ((status = cli_create(session, region)) ||
        (status = measure(session, ids, session->params.batch, own->repetitions, &prompt)) ||
        (status = measure(session, ids, 1, own->repetitions, &generation)))
        return status;
    if (own->json) {
        say_json(session, &prompt, &generation);
    } else {
        say_series("prompt    ", &prompt);
        say_series("generation", &generation);
    }
    return CLI_DONE;
}

static int bench(int argc, char **argv)
{
    mk_config config;
    bench_options own = {.prompt = 512, .generate = 128, .repetitions = 5};
    const char *operand;
    int status;
    if (!cli_parse(&cli_bench, argc, argv, &config, &own, &operand, &status))
        return status;
    cli_session session;
    if ((status = cli_open_runnable(&session, &config)))
        return status;
    status = bench_session(&session, &own);
    cli_close(&session);
    return status;
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "Measures the speed of prompts and of generation",
    .details =
        "Every run begins with an empty context. The context is as long as the runs need, if not given.\n",
    .example = "  makarna bench -m smollm2-q4.mkn -p 512 -n 128 --threads 4\n",
    .sections = MK_SECTION_MODEL | MK_SECTION_ENGINE | MK_SECTION_MEMORY,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = bench,
};
