/* How models mark what is not for the reader in a reply, tool calls and reasoning, and how they write
 * calls. */
#ifndef CR_FORMAT_H
#define CR_FORMAT_H

#include "base/text.h"

enum { CR_CHAT_OPENERS = 5, CR_CHAT_CLOSERS = 3, CR_CHAT_LAYOUT = 6 };

/* How a model writes calls, of the ways to write one that are read: texts with letters in them.
 *   section   %o the first opener, %c calls, %e the first closer
 *   between   %o
 *   call      %n the tool's name, %q the same in quotes, %d a digit, and the arguments: %a all of
 *             them as JSON, %p as Python's, %t each as `argument`
 *   argument  %k its name, %s whether it is text, %v its value, in front of a tag */
typedef struct cr_call_form {
    const char *section; /* NULL: it cannot be told what the model writes */
    const char *call;
    const char *between; /* calls of a section; NULL: each has its own */
    const char *text;    /* the name that is no tool's and says that text follows; NULL: none */
    const char *argument;
    const char *behind_bare; /* where there are bare calls: class of what may be behind `bare` */
    bool is_single;          /* a reply has one call */
} cr_call_form;

typedef struct cr_chat_format {
    const char *name;
    const char *openers[CR_CHAT_OPENERS]; /* any of them begins calls; NULL: none */
    const char *first; /* one that begins calls at the beginning of a reply alone; NULL: none */
    const char *prompt_end; /* an opener with which prompts end, if they do; NULL: none */
    const char *closers[CR_CHAT_CLOSERS]; /* any number of them follows calls; NULL: none */
    const char *layout[CR_CHAT_LAYOUT];   /* marks around content that say nothing; NULL: none */
    char bare;           /* a reply that begins with this may be a call without marks; 0: not so */
    bool keeps_opener;   /* the second opener belongs to the first call */
    bool has_bare_names; /* behind a mark comes a name, and then tags, an object or nothing */
    bool has_name_keys;  /* of a call that is an object: its one key is the name */
    bool has_marked_texts; /* arguments are as {a:<|"|>x<|"|>} */
    bool has_plain_layout; /* its layout is plain text, which counts behind reasoning only */
    bool thinks_again;     /* reasoning may come at any place, not in front of the reply alone */
    cr_call_form form;
    const char *signs[2]; /* what a template of such a model says */
    const char *arch;     /* how names of architectures of such models begin; NULL: none */
} cr_chat_format;

typedef struct cr_reasoning_marks {
    const char *open, *close;
} cr_reasoning_marks;
extern const cr_reasoning_marks cr_reasoning_table[];
extern const size_t cr_n_reasoning;

/* Number i; NULL behind the last. */
const cr_chat_format *cr_chat_format_at(size_t i);
/* NULL when there is none of that name. */
const cr_chat_format *cr_chat_format_find(const char *name);
/* The format that a template's text tells of, or that models of an architecture (NULL: not known)
 * have; "none" when neither tells. */
const cr_chat_format *cr_chat_format_detect(cr_str template_text, const char *arch);
/* The format's openers, one after the other; NULL behind the last. */
const char *cr_chat_format_opener(const cr_chat_format *format, size_t i);
/* The names, a blank before each, for errors. */
extern const char cr_chat_format_names[];

#endif
