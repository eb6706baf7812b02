/* Conversations in the chat format of SmolLM2 are those of the reference. */
#include "check.h"
#include "golden/golden_text.h"
#include "makarna.h"

enum { MESSAGES = 8 };

static void check_conversation(const mk_model *model, const mk_message *messages, size_t count,
                               const char *line)
{
    static int32_t expected[GOLDEN_IDS];
    mk_error err = {""};
    size_t text_bytes = 0, id_count = 0, wanted = golden_ids(line, expected);
    for (size_t i = 0; i < count; i++)
        text_bytes += messages[i].bytes;
    size_t scratch_size = mk_chat_scratch_size(model, count, text_bytes);
    size_t capacity = mk_chat_capacity(model, count, text_bytes);
    void *scratch = malloc(scratch_size);
    int32_t *ids = malloc(capacity * sizeof *ids);
    mk_status status =
        mk_chat_tokenize(model, messages, count, ids, capacity, &id_count, scratch, scratch_size, &err);
    CHECK_MSG(status == MK_OK, "%s", err.text);
    CHECK_MSG(id_count == wanted && memcmp(ids, expected, wanted * sizeof *ids) == 0,
              "conversation of %zu messages, the last \"%.*s\"", count, (int)messages[count - 1].bytes,
              messages[count - 1].text);
    free(scratch);
    free(ids);
}

int main(int argc, char **argv)
{
    static char lines[MESSAGES][GOLDEN_LINE];
    char path[4096];
    const char *image = golden_image(argc, argv, "smollm2-q8.mkn", path);
    mk_model model;
    mk_error err;
    mk_message messages[MESSAGES];
    size_t count = 0;
    if (!image)
        CHECK_SKIP("no image of SmolLM2: give its path, or a folder with smollm2-q8.mkn as MK_IMAGES");
    if (mk_model_open(&model, image, MK_LOAD_MAP, &err) != MK_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    FILE *file = golden_open(MK_TEST_DATA "/golden/chat_smollm2.txt");
    while (count < MESSAGES && golden_line(file, lines[count])) {
        char *line = lines[count], *text = strchr(line, ' ');
        if (!text)
            break;
        *text++ = 0;
        if (strcmp(line, "=") == 0) {
            check_conversation(&model, messages, count, text);
            count = 0;
            continue;
        }
        mk_role role = strcmp(line, "system") == 0 ? MK_SYSTEM
                       : strcmp(line, "user") == 0 ? MK_USER
                                                   : MK_ASSISTANT;
        size_t bytes = golden_unescape(text);
        messages[count++] = (mk_message){role, text, bytes};
    }
    fclose(file);
    CHECK(check_count >= 2 * 20);
    mk_model_close(&model);
    return check_end();
}
