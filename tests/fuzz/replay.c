/* Runs a fuzz target over files instead of libFuzzer: the corpus is part of the ordinary tests, and
 * a build without clang, or one under valgrind, can run it too.
 *
 *     fuzz_gguf tests/fuzz/corpus/fuzz_gguf [more files or folders]
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_files;

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, room = 0;
    for (;;) {
        if (size == room) {
            room = room == 0 ? 65536 : room * 2;
            uint8_t *larger = realloc(data, room);
            if (larger == NULL)
                break;
            data = larger;
        }
        size_t n = fread(data + size, 1, room - size, file);
        if (n == 0)
            break;
        size += n;
    }
    fclose(file);
    /* A block of exactly this size, so that a read past the end is one past a block. */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact != NULL) {
        if (size > 0)
            memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
        n_files++;
    }
    free(exact);
    free(data);
    return exact == NULL;
}

static int replay(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return replay_file(path);
    int failed = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char child[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        failed += replay_file(child);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed += replay(argv[i]);
    printf("%d files\n", n_files);
    return failed > 0 || n_files == 0;
}
