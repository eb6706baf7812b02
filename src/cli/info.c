/* makarna info - what an image is, and what memory it takes to run it. */
#include "cli/cli.h"

#include <string.h>

#include "base/error.h"

static void say_text(const char *label, const char *text)
{
    cli_say("%s %s\n", label, *text ? text : "-");
}

static void say_real(const char *label, double value, int decimals)
{
    char text[32];
    cli_say("%s %s\n", label, cli_fixed(text, value, decimals));
}

/* A small positive number as digits and a power of ten, 1e-05. */
static void say_small(const char *label, double value)
{
    char digits[32];
    int exponent = 0;
    for (; value > 0 && value < 0.99995 && exponent < 60; exponent++) /* what rounds to 1.000 is 1 */
        value *= 10;
    cli_fixed(digits, value, 3);
    size_t length = strlen(digits);
    while (digits[length - 1] == '0')
        digits[--length] = 0;
    if (digits[length - 1] == '.')
        digits[--length] = 0;
    cli_say(exponent ? "%s %se-%s%d\n" : "%s %s\n", label, digits, exponent < 10 ? "0" : "", (int32_t)exponent);
}

static const char *yes_no(bool value)
{
    return value ? "yes" : "no";
}

static void say_sizes(const mk_model_info *info)
{
    cli_say("layers            %u\n", info->layers);
    cli_say("heads             %u\n", info->heads);
    cli_say("KV heads          %u\n", info->kv_heads);
    cli_say("head size         %u\n", info->head_size);
    cli_say("hidden            %u\n", info->hidden);
    cli_say("intermediate      %u\n", info->intermediate);
    cli_say("context           %u\n", info->context);
    say_small("norm epsilon     ", (double)info->norm_epsilon);
    say_real("RoPE base        ", (double)info->rope_base, 1);
    cli_say("RoPE dimensions   %u\n", info->rope_dims);
    cli_say("tied embeddings   %s\n", yes_no(info->tied_embeddings));
    cli_say("attention bias    %s\n", yes_no(info->attention_bias));
    cli_say("QK norm           %s\n", yes_no(info->qk_norm));
    say_text("embedding type   ", info->embedding_type);
    say_text("head type        ", info->head_type);
    say_text("layer type       ", info->layer_type);
    cli_say("weights           %U in %U bytes (%M)\n", info->weights, info->weight_bytes, info->weight_bytes);
    if (info->weights)
        say_real("bits per weight  ", (double)info->weight_bytes * 8 / (double)info->weights, 3);
}

static void say_line(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    mk_format_list(line, sizeof line, format, arguments);
    va_end(arguments);
    cli_say("%s\n", line);
}

static void say_image(const cli_session *session)
{
    const mk_model_info *info = &session->info;
    cli_say("image             %s\n", session->config->model);
    cli_say("size              %U bytes (%M)\n", info->image_bytes, info->image_bytes);
    say_text("name             ", info->name);
    say_text("license          ", info->license);
    say_text("source           ", info->source);
    cli_say("source checksum   %x\n", info->source_checksum);
    say_text("quantizer        ", info->quantizer);
    say_text("options          ", info->options);
    say_text("chat format      ", info->chat_format);
    cli_say("vocabulary        %u\n", info->vocabulary);
}

static int say_all(cli_session *session)
{
    say_image(session);
    if (session->info.vocab_only) {
        cli_say("a vocabulary alone: it tokenizes, and cannot run\n");
        return CLI_DONE;
    }
    say_sizes(&session->info);
    cli_say_kernels("kernels          ");
    cli_set_params(session);
    cli_say("\nmemory beside the image\n");
    cli_flush();
    int status = cli_plan(session);
    if (status == CLI_DONE)
        cli_say_plan(&session->plan, &session->params, say_line);
    return status;
}

static int info(int argc, char **argv)
{
    mk_config config;
    const char *operand;
    int status;
    if (!cli_parse(&cli_info, argc, argv, &config, NULL, &operand, &status))
        return status;
    if (operand)
        config.model = operand;
    cli_session session;
    if ((status = cli_open(&session, &config)))
        return status;
    status = say_all(&session);
    cli_close(&session);
    return status;
}

const cli_command cli_info = {
    .name = "info",
    .operand = "[MODEL]",
    .summary = "Says what an image is, and what memory it takes",
    .details = "The plan is for the options as given: try --context and --kv to see what fits a board.\n",
    .example = "  makarna info smollm2-q4.mkn --context 4096 --kv q4\n",
    .sections = MK_SECTION_MODEL | MK_SECTION_ENGINE | MK_SECTION_MEMORY,
    .run = info,
};
