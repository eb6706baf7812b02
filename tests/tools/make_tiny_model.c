/* make_tiny_model.c - writes a small random model (tiny_model.h):
 *
 *     make_tiny_model OUT.gguf
 *     make_tiny_model 0|1|2 OUT.bin TOKENIZER.bin         llama2.c in that version
 */
#include "tools/tiny_model.h"

int main(int argc, char **argv)
{
    if (argc == 2) {
        tiny_gguf(argv[1]);
        return 0;
    }
    if (argc == 4 && strlen(argv[1]) == 1 && argv[1][0] >= '0' && argv[1][0] <= '2') {
        tiny_llama2c((uint32_t)(argv[1][0] - '0'), argv[2], argv[3]);
        return 0;
    }
    fprintf(stderr, "usage: make_tiny_model OUT.gguf\n"
                    "       make_tiny_model 0|1|2 OUT.bin TOKENIZER.bin\n");
    return 2;
}
