/* tokenizer_image.h - for tests: a vocabulary-only image in memory, from a tokenizer section and the texts
 * of a chat format. */
#ifndef MK_TESTS_TOKENIZER_IMAGE_H
#define MK_TESTS_TOKENIZER_IMAGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/mkn.h"
#include "makarna.h"

/* In the order of mkn_strings, from chat_format on; NULL: absent. */
typedef struct test_chat {
    const char *name;
    const char *system_prefix, *system_suffix, *user_prefix, *user_suffix, *assistant_prefix, *assistant_suffix;
    const char *default_system;
} test_chat;

static inline size_t test_strings_section(const test_chat *chat, uint8_t *out)
{
    const char *const texts[] = {
        chat->name,        chat->system_prefix,    chat->system_suffix,    chat->user_prefix,
        chat->user_suffix, chat->assistant_prefix, chat->assistant_suffix, chat->default_system};
    mkn_strings strings = {0};
    uint32_t *const fields[] = {&strings.chat_format,      &strings.system_prefix, &strings.system_suffix,
                                &strings.user_prefix,      &strings.user_suffix,   &strings.assistant_prefix,
                                &strings.assistant_suffix, &strings.default_system};
    size_t at = sizeof strings;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!texts[i])
            continue;
        *fields[i] = (uint32_t)at;
        memcpy(out + at, texts[i], strlen(texts[i]) + 1);
        at += strlen(texts[i]) + 1;
    }
    memcpy(out, &strings, sizeof strings);
    return at;
}

/* The image, to be given to free(); chat may be NULL. */
static inline void *test_vocab_image(const uint8_t *section, size_t section_size, uint32_t vocabulary,
                                     const test_chat *chat, size_t *size)
{
    uint8_t strings[8192];
    size_t strings_size = chat ? test_strings_section(chat, strings) : 0;
    size_t strings_at = (sizeof(mkn_header) + section_size + 63) / 64 * 64;
    *size = (strings_at + strings_size + 63) / 64 * 64;
    uint8_t *image = aligned_alloc(64, *size);
    if (!image)
        abort();
    memset(image, 0, *size);
    mkn_header header = {
        .magic = MKN_MAGIC,
        .version = MKN_VERSION,
        .header_size = sizeof header,
        .file_size = *size,
        .vocabulary = vocabulary,
        .flags = MKN_VOCAB_ONLY,
    };
    header.sections[MKN_TOKENIZER] =
        (mkn_section){sizeof header, section_size, mk_hash(section, section_size, 0)};
    if (chat)
        header.sections[MKN_STRINGS] =
            (mkn_section){strings_at, strings_size, mk_hash(strings, strings_size, 0)};
    header.checksum = mk_hash(&header, sizeof header, 0);
    memcpy(image, &header, sizeof header);
    memcpy(image + sizeof header, section, section_size);
    memcpy(image + strings_at, strings, strings_size);
    return image;
}

#endif
