/* misbehave.c - says "ready", then does what the memory contract forbids, so that the test of the
 * contract can be seen to fail: misbehave brk|mmap|mremap|malloc|thread|nothing */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map(void *unused)
{
    (void)unused;
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *map_later(void *go)
{
    char c;
    if (read(*(int *)go, &c, 1) == 1)
        map(NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int go[2];
    pthread_t thread;
    void *old = map(NULL);
    void *volatile block = NULL;
    if (pipe(go) || pthread_create(&thread, NULL, map_later, &go[0]))
        return 1;
    if (write(2, "ready\n", 6) != 6)
        return 1;
    if (strcmp(what, "brk") == 0)
        syscall(SYS_brk, 0);
    if (strcmp(what, "mmap") == 0)
        map(NULL);
    if (strcmp(what, "mremap") == 0)
        old = mremap(old, 4096, 8192, MREMAP_MAYMOVE);
    if (strcmp(what, "malloc") == 0)
        block = malloc(16);
    if (strcmp(what, "thread") == 0 && write(go[1], "", 1) != 1)
        return 1;
    close(go[1]);
    pthread_join(thread, NULL);
    munmap(old, 4096);
    return block == old; /* never, but the compiler cannot know */
}
