#define _DEFAULT_SOURCE
#include "cli/progress.h"

#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, QUIET_MS = 1000, REDRAW_MS = 100, LINE_MS = 5000, LINE_PERCENT = 10 };

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool locale_is_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
    }
    return false;
}

void progress_start(progress *p, const cli_args *args, const char *name)
{
    *p = (progress){ .name = name, .unit = "tokens", .divisor = 1, .start_ms = now_ms() };
    p->last_ms = p->start_ms;
    const option_value *option = &args->option[OPT_PROGRESS];
    const char *mode = option->count > 0 ? option->text : "auto";
    const char *term = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
    if (report_level() < 0)
        p->mode = PROGRESS_NONE;
    else if (strcmp(mode, "plain") == 0)
        p->mode = PROGRESS_PLAIN;
    else if (strcmp(mode, "json") == 0)
        p->mode = PROGRESS_JSON;
    else if (strcmp(mode, "auto") == 0 && terminal)
        p->mode = PROGRESS_BAR;
    p->unicode = locale_is_utf8();
}

static void draw_bar(const progress *p, size_t done, size_t total, int percent)
{
    int full = percent * BAR_WIDTH / 100;
    fprintf(stderr, "\r%s %3d%% %s", p->name, percent, p->unicode ? "\u2595" : "[");
    for (int i = 0; i < BAR_WIDTH; i++)
        fputs(i >= full ? (p->unicode ? " " : ".") : (p->unicode ? "\u2588" : "#"), stderr);
    fprintf(stderr, "%s %zu/%zu %s ", p->unicode ? "\u258f" : "]", done / p->divisor,
            total / p->divisor, p->unit);
}

void progress_set(progress *p, size_t done, size_t total)
{
    if (p->mode == PROGRESS_NONE || total == 0)
        return;
    uint64_t now = now_ms();
    int percent = (int)((double)done * 100.0 / (double)total);
    bool due = now - p->last_ms >= REDRAW_MS;
    if (p->mode == PROGRESS_PLAIN)
        due = percent >= p->last_percent + LINE_PERCENT || now - p->last_ms >= LINE_MS;
    if (p->mode == PROGRESS_JSON)
        due = due || done == total;
    else if (now - p->start_ms < QUIET_MS)
        due = false;
    if (!due)
        return;
    p->last_ms = now;
    p->last_percent = percent;
    p->shown = true;
    if (p->mode == PROGRESS_BAR)
        draw_bar(p, done, total, percent);
    else if (p->mode == PROGRESS_PLAIN)
        fprintf(stderr, "%s: %d%% (%zu of %zu %s)\n", p->name, percent, done / p->divisor,
                total / p->divisor, p->unit);
    else
        fprintf(stderr, "{\"event\":\"progress\",\"file\":\"%s\",\"done\":%zu,\"total\":%zu}\n",
                p->name, done, total);
}

void progress_end(progress *p)
{
    if (p->mode == PROGRESS_BAR && p->shown)
        fprintf(stderr, "\r%*s\r", BAR_WIDTH + 60, "");
}
