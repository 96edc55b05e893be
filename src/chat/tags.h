/* Tags that models write calls with. */
#ifndef CR_TAGS_H
#define CR_TAGS_H

#include "base/text.h"

typedef enum cr_tag_kind {
    CR_TAG_CALL,      /* a call begins; its name is in the tag */
    CR_TAG_BEGIN,     /* a call begins; its name follows */
    CR_TAG_NAME,      /* what stood in front of it was an id; the name follows */
    CR_TAG_HEAD,      /* says nothing, as what is between it and the next */
    CR_TAG_ARGUMENTS, /* all arguments follow, an object */
    CR_TAG_KEY,       /* the name of an argument follows */
    CR_TAG_VALUE,  /* the value of an argument, whose name is in the tag or came before, follows */
    CR_TAG_TEXT,   /* the same of a text, whatever the schema says */
    CR_TAG_JSON,   /* the same of anything else */
    CR_TAG_LAYOUT, /* says nothing, within a call */
    CR_TAG_END,    /* a call ends */
} cr_tag_kind;

enum {
    CR_TAG_LINES = 1,    /* the text has lines of its own: two line feeds are not part of it */
    CR_TAG_ENTITIES = 2, /* & and " are written &amp; and &quot; in the name */
};

typedef struct cr_tag {
    cr_tag_kind kind;
    const char *text; /* with % where a name stands in it, and another for what says nothing */
    const char *end;  /* what ends the text that follows */
    unsigned how;     /* CR_TAG_LINES, CR_TAG_ENTITIES */
} cr_tag;

/* The tag that a text is all of, and the name in it; NULL: none of these. */
const cr_tag *cr_tag_find(cr_str text, cr_str *name);
/* Whether a text that ends in > may go on as a tag. */
bool cr_tag_is_open(cr_str text);

#endif
