#include "quant/convert/chat_format.h"

#include <stdio.h>
#include <string.h>

#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"

static const chat_format chatml = {
    .name = "chatml",
    .system_prefix = IM_START "system\n",
    .system_suffix = IM_END "\n",
    .user_prefix = IM_START "user\n",
    .user_suffix = IM_END "\n",
    .assistant_prefix = IM_START "assistant\n",
    .assistant_suffix = IM_END "\n",
};

/* The loop over messages and the generation prompt that all ChatML templates below share. The line breaks
 * of the literals are written out in some sources and escaped in others: NL stands for either. */
/* clang-format off */
#define CHATML_MESSAGE(NL)                                                          \
    "{{'" IM_START "' + message['role'] + '" NL "' + message['content'] + "         \
    "'" IM_END "' + '" NL "'}}"                                                     \
    "{% endfor %}"
#define CHATML_GENERATION(NL)                                                       \
    "{% if add_generation_prompt %}{{ '" IM_START "assistant" NL "' }}{% endif %}"
#define CHATML_PLAIN(NL)                                                            \
    "{% for message in messages %}" CHATML_MESSAGE(NL) CHATML_GENERATION(NL)
#define CHATML_WITH_SYSTEM(NL, SYSTEM)                                              \
    "{% for message in messages %}"                                                 \
    "{% if loop.first and messages[0]['role'] != 'system' %}"                       \
    "{{ '" IM_START "system" NL SYSTEM IM_END NL "' }}"                             \
    "{% endif %}" CHATML_MESSAGE(NL) CHATML_GENERATION(NL)
#define DEFAULT_NO_GENERATION                                                       \
    "{% if not add_generation_prompt is defined %}"                                 \
    "{% set add_generation_prompt = false %}"                                       \
    "{% endif %}"
/* clang-format on */

#define SMOLLM2_SYSTEM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

static const struct {
    const char *text;
    const chat_format *format;
    const char *default_system;
} known_templates[] = {
    {CHATML_WITH_SYSTEM("\n", SMOLLM2_SYSTEM), &chatml, SMOLLM2_SYSTEM},
    {CHATML_WITH_SYSTEM("\\n", SMOLLM2_SYSTEM), &chatml, SMOLLM2_SYSTEM},
    {CHATML_PLAIN("\n"), &chatml, NULL},
    {CHATML_PLAIN("\\n"), &chatml, NULL},
    {DEFAULT_NO_GENERATION CHATML_PLAIN("\n"), &chatml, NULL},
    {DEFAULT_NO_GENERATION CHATML_PLAIN("\\n"), &chatml, NULL},
};

static bool equals(source_string s, const char *text)
{
    return s.length == strlen(text) && memcmp(s.text, text, s.length) == 0;
}

/* Whether the vocabulary has this text as a special token. */
static bool has_special(const source_vocab *vocab, const char *text)
{
    for (uint32_t i = 0; i < vocab->count; i++)
        if ((vocab->types[i] == SOURCE_TOKEN_CONTROL || vocab->types[i] == SOURCE_TOKEN_USER) &&
            equals(vocab->tokens[i], text))
            return true;
    return false;
}

static const char *missing_special(const source_vocab *vocab)
{
    return !has_special(vocab, IM_START) ? IM_START : !has_special(vocab, IM_END) ? IM_END : NULL;
}

static chat_result by_name(const source_vocab *vocab, const char *name, chat_format *format, char *message,
                           size_t message_size)
{
    if (strcmp(name, "none") == 0)
        return CHAT_NONE;
    if (strcmp(name, chatml.name) != 0) {
        snprintf(message, message_size, "unknown chat format \"%s\": known are chatml and none", name);
        return CHAT_FAILED;
    }
    const char *missing = missing_special(vocab);
    if (missing) {
        snprintf(message, message_size,
                 "chat format chatml needs the special token %s, which this vocabulary does not have", missing);
        return CHAT_FAILED;
    }
    *format = chatml;
    return CHAT_FOUND;
}

static chat_result by_template(const source_vocab *vocab, chat_format *format, char *message,
                               size_t message_size)
{
    if (vocab->chat_template.length == 0) {
        snprintf(message, message_size,
                 "the source has no chat template, so the image gets no chat format: run it with --raw, or "
                 "name a format with --chat-format");
        return CHAT_NONE;
    }
    for (size_t i = 0; i < sizeof known_templates / sizeof known_templates[0]; i++) {
        if (!equals(vocab->chat_template, known_templates[i].text))
            continue;
        const char *missing = missing_special(vocab);
        if (missing) {
            snprintf(message, message_size,
                     "the chat template of the source uses %s, which is no special token of its vocabulary, so "
                     "the image gets no chat format: run it with --raw",
                     missing);
            return CHAT_NONE;
        }
        *format = *known_templates[i].format;
        format->default_system = known_templates[i].default_system;
        return CHAT_FOUND;
    }
    snprintf(message, message_size,
             "the chat template of the source is not one that this version knows, so the image gets no chat "
             "format: run it with --raw, or name a format with --chat-format (chatml, none)");
    return CHAT_NONE;
}

chat_result convert_chat_format(const source_vocab *vocab, const char *requested, chat_format *format,
                                char *message, size_t message_size)
{
    *format = (chat_format){0};
    if (message_size)
        message[0] = 0;
    if (requested)
        return by_name(vocab, requested, format, message, message_size);
    return by_template(vocab, format, message, message_size);
}
