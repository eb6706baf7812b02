/* consumer.c - the smallest program that uses the installed library: opens what is no image. */
#include <makarna.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    mk_model model;
    mk_error err;
    mk_status status = mk_model_open(&model, "/dev/null", MK_LOAD_MAP, &err);
    printf("makarna %s: %s: %s\n", MK_VERSION, mk_status_text(status), err.text);
    return status == MK_OK || strlen(err.text) == 0;
}
