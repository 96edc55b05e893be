/* Parts of marks and tags that several tables spell. Only format.c and tags.c include this. */
#ifndef CR_MARK_PARTS_H
#define CR_MARK_PARTS_H

/* A bar and a blank that are no ASCII, as DeepSeek's models have them. */
#define BAR "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"
#define DEEPSEEK(what) "<" BAR "tool" BLANK what BAR ">"
#define DSML BAR "DSML" BAR

/* The end of all marks of hy3. */
#define HY ":opensource>"

#endif
