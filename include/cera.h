/* cera: run language models from GGUF files.
 *
 * This header is the whole public API and its manual. What is not here is not API.
 *
 *     cera_engine *e;  cera_session *s;  cera_error err;
 *     cera_engine_open("model.gguf", NULL, &e, &err);
 *     cera_session_new(e, NULL, &s, &err);
 *     cera_session_append_text(s, "Once upon a time", &err);
 *     cera_session_generate(s, NULL, &(cera_sink){ .on_text = print }, NULL, &err);
 *     cera_session_free(s);
 *     cera_engine_close(e);
 *
 * Conventions that hold for every function:
 *
 * - A function that can fail returns a cera_status, takes its outputs next to last and a
 *   `cera_error *` last. The error may be NULL. Outputs are written only on success.
 * - Options structs begin with `size`; fill them with their cera_*_options_init() and change what
 *   you need. NULL means the defaults.
 * - `open`/`close` holds a file or device, `new`/`free` holds memory. Both take NULL as "nothing".
 * - A returned `const` pointer is borrowed: it lives as long as the object it came from, unless the
 *   function says otherwise. Inputs are copied unless the function says that they are kept.
 * - The library never prints, exits, reads the environment, installs signal handlers or keeps
 *   global state. All memory and all system calls go through the tables in cera_host.
 * - Threads: an engine, a file and a vocabulary may be used by many threads at once. A session
 *   belongs to one thread at a time; only cera_session_cancel may be called from elsewhere. A sink
 *   may ask its session questions and cancel it; other calls on it fail with CERA_E_STATE.
 * - A child of fork() has none of the engine's threads: computing there fails with CERA_E_STATE,
 *   and the child opens an engine of its own.
 */
#ifndef CERA_H
#define CERA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CERA_VERSION_MAJOR 0
#define CERA_VERSION_MINOR 1
#define CERA_VERSION_PATCH 0

#if defined(CERA_STATIC) || !defined(__GNUC__)
#define CERA_API
#else
#define CERA_API __attribute__((visibility("default")))
#endif

/* The version of the library that is running, as "MAJOR.MINOR.PATCH". */
CERA_API const char *cera_version(void);

/* ---- status and errors ------------------------------------------------------------------- */

/* The list of every status: name, value, meaning. Values never change their meaning. */
#define CERA_STATUS_LIST(X)                                                                        \
    X(CERA_OK, 0, "success")                                                                       \
    X(CERA_E_ARG, 1, "an argument is out of its range")                                            \
    X(CERA_E_FORMAT, 2, "a file is malformed or contradicts itself")                               \
    X(CERA_E_UNSUPPORTED, 3, "a valid request or file that this build cannot serve")               \
    X(CERA_E_LIMIT, 4, "a size is over a documented limit")                                        \
    X(CERA_E_IO, 5, "the operating system failed to open, read, map or write something")           \
    X(CERA_E_NOMEM, 6, "the allocator returned no memory")                                         \
    X(CERA_E_CONTEXT, 7, "the text does not fit the context")                                      \
    X(CERA_E_CANCELLED, 8, "the caller asked for an end")                                          \
    X(CERA_E_STATE, 9, "not possible in the present state of the object")

typedef enum cera_status {
#define CERA_STATUS_ENUM(name, value, meaning) name = value,
    CERA_STATUS_LIST(CERA_STATUS_ENUM)
#undef CERA_STATUS_ENUM
} cera_status;

/* The name of a status, such as "CERA_E_FORMAT"; "CERA_E_?" for a value not in the list. */
CERA_API const char *cera_status_name(cera_status status);

/* What went wrong, for a person: "subject: expected, found[; remedy]", UTF-8, no newline, control
 * bytes escaped. The struct belongs to the caller and holds no resources. */
typedef struct cera_error {
    cera_status status;
    char message[508];
} cera_error;

/* ---- host: memory and operating system --------------------------------------------------- */

/* Memory. `align` is a power of two. `resize` keeps the first min(old_size, size) bytes. Any of
 * alloc and resize may return NULL; the call that needed the memory then fails with CERA_E_NOMEM.
 * The functions are called from several threads at once. */
typedef struct cera_allocator {
    void *(*alloc)(void *ctx, size_t size, size_t align);
    void *(*resize)(void *ctx, void *ptr, size_t old_size, size_t size, size_t align);
    void (*release)(void *ctx, void *ptr, size_t size);
    void *ctx;
} cera_allocator;

/* What cera asks of a file before it trusts a mapping of it. */
typedef struct cera_os_stat {
    uint64_t size; /* bytes */
    int64_t mtime_ns;
    uint64_t device, inode;
    uint32_t mode; /* permissions as POSIX has them, such as 0644 */
    bool is_regular;
} cera_os_stat;

/* Every system call of the library. Functions that return int give 0 or an errno value. */
typedef struct cera_os {
    /* Opens for reading; *file is the table's own handle. */
    int (*open)(void *ctx, const char *path, void **file);
    void (*close)(void *ctx, void *file);
    int (*stat)(void *ctx, void *file, cera_os_stat *out);
    /* Reads up to n bytes at offset: the count (0 at the end), or -errno. May be short. */
    int64_t (*read)(void *ctx, void *file, void *buf, size_t n, uint64_t offset);
    /* Creates a file for writing; EEXIST when there is one of that name. mode: its permissions; 0:
     * those that new files have. */
    int (*create)(void *ctx, const char *path, uint32_t mode, void **file);
    /* Writes up to n bytes at offset: the count, or -errno. May be short. */
    int64_t (*write)(void *ctx, void *file, const void *buf, size_t n, uint64_t offset);
    /* Returns when what was written to the file survives a loss of power. */
    int (*sync)(void *ctx, void *file);
    /* Gives a file another name in one step; what had that name before is gone. */
    int (*rename)(void *ctx, const char *from, const char *to);
    /* The same as sync, for the names in the folder that holds `path`. */
    int (*sync_folder)(void *ctx, const char *path);
    int (*remove)(void *ctx, const char *path);
    /* Where a symbolic link leads, as it says itself, with a NUL: ENAMETOOLONG where `room` is too
     * small, EINVAL for what is no link. */
    int (*read_link)(void *ctx, const char *path, char *to, size_t room);
    /* Creates a folder that only this user may look into; one that is there is as good. */
    int (*make_folder)(void *ctx, const char *path);
    /* Calls each() with name and facts of every regular file of a folder, in any order, until it
     * returns something other than 0. */
    int (*list)(void *ctx, const char *folder,
                int (*each)(void *user, const char *name, const cera_os_stat *stat), void *user);
    /* Makes now the time when the file was changed last. */
    int (*touch)(void *ctx, const char *path);
    /* Maps the first n bytes of the file, read only, shared. */
    int (*map)(void *ctx, void *file, size_t n, const void **out);
    void (*unmap)(void *ctx, const void *ptr, size_t n);
    uint64_t (*clock_ns)(void *ctx); /* monotonic */
    int (*thread_start)(void *ctx, void (*main)(void *arg), void *arg, void **thread);
    void (*thread_join)(void *ctx, void *thread);
    /* A futex: `wait` sleeps while *word == value, and may return early; `wake` wakes all. */
    void (*wait)(void *ctx, const uint32_t *word, uint32_t value);
    void (*wake)(void *ctx, const uint32_t *word);
    /* The processors this thread may run on, as a bit set of 1,024. */
    int (*affinity)(void *ctx, uint64_t mask[16]);
    /* A number that fork() changes. */
    uint64_t (*process)(void *ctx);
    void *ctx;
} cera_os;

/* The tables a library object works with, copied when it is created. */
typedef struct cera_host {
    size_t size;
    cera_allocator allocator;
    cera_os os;
    /* Warnings and remarks, one line each, UTF-8. NULL drops them. level: 0 warning, 1 detail. An
     * engine with a cache_dir calls this from a thread of its own, too. */
    void (*log)(void *ctx, int level, const char *text);
    void *log_ctx;
} cera_host;

/* malloc and this operating system, no log. Of allocations and maps of 8 MiB and more, Linux is asked
 * for pages of 2 MiB; that is part of these tables, and of no others. */
CERA_API void cera_host_init(cera_host *host);

/* Writes a file whole or not at all: until it is complete and on the disk, and after any failure,
 * the name stands for what it did before. Symbolic links are followed. A file that is replaced
 * keeps its permissions, a new one gets `mode` (0: those that new files have). What is no regular
 * file is refused with CERA_E_IO. host: NULL for the default tables. */
CERA_API cera_status cera_host_write_file(const cera_host *host, const char *path, uint32_t mode,
                                          const void *data, size_t n, cera_error *err);

/* ---- source: where a model comes from ---------------------------------------------------- */

/* Exactly one of the three forms is set.
 *   path             a file, or "builtin:tiny" when the library was built with CERA_BUILTIN_MODEL.
 *                    Any file of a split model ("-00001-of-00003.gguf") opens all of them
 *   data, n_data     memory, kept: it must outlive every object opened from it
 *   read, n_data     a callback that fills buf with n bytes at offset; returns 0 or an errno value.
 *                    The whole file is read into memory when it is opened. */
typedef struct cera_source {
    const char *path;
    const void *data;
    uint64_t n_data;
    int (*read)(void *user, void *buf, size_t n, uint64_t offset);
    void *user;
    bool no_mmap; /* read a path into memory instead of mapping it */
} cera_source;

/* ---- file: metadata and tensor list, for inspection -------------------------------------- */

typedef struct cera_file cera_file;

/* The GGUF value types, numbered as in the format. */
typedef enum cera_value_type {
    CERA_VALUE_U8 = 0,
    CERA_VALUE_I8 = 1,
    CERA_VALUE_U16 = 2,
    CERA_VALUE_I16 = 3,
    CERA_VALUE_U32 = 4,
    CERA_VALUE_I32 = 5,
    CERA_VALUE_F32 = 6,
    CERA_VALUE_BOOL = 7,
    CERA_VALUE_STRING = 8,
    CERA_VALUE_ARRAY = 9,
    CERA_VALUE_U64 = 10,
    CERA_VALUE_I64 = 11,
    CERA_VALUE_F64 = 12,
} cera_value_type;

/* One value. For an array, `element` is its type, `count` its length, and its elements are read
 * with cera_file_element. Text is UTF-8 as found in the file, not terminated by NUL. */
typedef struct cera_value {
    cera_value_type type;
    cera_value_type element;
    uint64_t count;
    union {
        uint64_t u;
        int64_t i;
        double f; /* F32 and F64 */
        bool b;
        struct {
            const char *text;
            size_t size;
        } s;
    } as;
} cera_value;

typedef struct cera_file_tensor {
    const char *name;
    const char *type; /* "Q4_0", or "type 99" when this build does not know it */
    int n_dims;
    uint64_t shape[4]; /* as in the file: shape[0] is the contiguous dimension; unused ones are 1 */
    uint32_t part;     /* the file it is in, from 0; 0 unless the model is split */
    uint64_t offset;   /* from the start of that file */
    uint64_t size;     /* bytes; 0 when the type is unknown */
} cera_file_tensor;

typedef struct cera_file_info {
    uint32_t version;   /* of GGUF */
    uint64_t size;      /* bytes of all files */
    uint64_t alignment; /* of the first file, as are version and data_offset */
    uint64_t data_offset;
    uint64_t n_keys, n_tensors, n_params;
    uint32_t n_parts;  /* files; the keys are those of the first, the tensors those of all */
    const char *quant; /* how it is quantised, such as "Q4_K_M"; "unknown" when nothing tells */
} cera_file_info;

/* Reads and checks the header; no weight is touched. Errors name the key, the tensor or the byte
 * offset. host may be NULL. */
CERA_API cera_status cera_file_open(const cera_source *source, const cera_host *host,
                                    cera_file **out, cera_error *err);
CERA_API void cera_file_close(cera_file *file);
CERA_API void cera_file_get_info(const cera_file *file, cera_file_info *out);
/* Key and tensor i in file order; i must be below the count in cera_file_info. */
CERA_API const char *cera_file_key(const cera_file *file, size_t i, cera_value *out);
CERA_API void cera_file_get_tensor(const cera_file *file, size_t i, cera_file_tensor *out);
/* Looks a key up; false when it is absent. */
CERA_API bool cera_file_find(const cera_file *file, const char *key, cera_value *out);
/* Element i of the array under `key`; false when there is none. */
CERA_API bool cera_file_element(const cera_file *file, const char *key, uint64_t i,
                                cera_value *out);

/* ---- vocabulary: text to ids and back ---------------------------------------------------- */

typedef struct cera_vocab cera_vocab;

typedef struct cera_vocab_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the default host */
    const char *pre;       /* pre-tokenizer to use; NULL: as tokenizer.ggml.pre says */
} cera_vocab_options;
CERA_API void cera_vocab_options_init(cera_vocab_options *options);

/* A vocabulary alone: the file needs no tensors. Free it with cera_vocab_free; one that came from
 * cera_engine_vocab is borrowed and must not be freed. */
CERA_API cera_status cera_vocab_open(const cera_source *source, const cera_vocab_options *options,
                                     cera_vocab **out, cera_error *err);
CERA_API void cera_vocab_free(cera_vocab *vocab);

typedef struct cera_encode_options {
    size_t size;
    bool parse_special; /* text that spells a control token becomes that token; default false */
    bool add_bos;       /* prepend BOS where the file asks for it; default true */
    bool add_eos;       /* append EOS where the file asks for it; default false */
} cera_encode_options;
CERA_API void cera_encode_options_init(cera_encode_options *options);

/* Encodes n bytes. *ids comes from malloc-like memory of the vocabulary's host: release it with
 * cera_vocab_free_ids. Bytes that are not UTF-8 are kept: decoding gives them back. Where the
 * vocabulary lacks a byte, its unknown token stands for it; without one the call fails with
 * CERA_E_UNSUPPORTED naming the byte. */
CERA_API cera_status cera_vocab_encode(const cera_vocab *vocab, const char *text, size_t n,
                                       const cera_encode_options *options, int32_t **ids,
                                       size_t *n_ids, cera_error *err);
CERA_API void cera_vocab_free_ids(const cera_vocab *vocab, int32_t *ids, size_t n_ids);

/* The bytes of one token, which need not be whole UTF-8 characters; NULL for an id out of range.
 * Control tokens give their text. */
CERA_API const char *cera_vocab_piece(const cera_vocab *vocab, int32_t id, size_t *n);

/* What a token adds to a text behind `previous` (-1: nothing): its piece, but for the blank that
 * some vocabularies put before a text when they encode it. All ids of a text one after the other
 * give the text. */
CERA_API const char *cera_vocab_piece_after(const cera_vocab *vocab, int32_t previous, int32_t id,
                                            size_t *n);

typedef struct cera_vocab_info {
    size_t n_tokens;
    int32_t bos, eos; /* -1 when the file names none */
    bool add_bos, add_eos;
    const char *model; /* the kind of vocabulary, as in tokenizer.ggml.model */
    const char *pre;   /* the pre-tokenizer's name; "" where the kind has none */
} cera_vocab_info;
CERA_API void cera_vocab_get_info(const cera_vocab *vocab, cera_vocab_info *out);
/* Whether the token ends a generation (EOS, end of turn, ...), and whether it is a control
 * token. */
CERA_API bool cera_vocab_is_end(const cera_vocab *vocab, int32_t id);
CERA_API bool cera_vocab_is_control(const cera_vocab *vocab, int32_t id);

/* ---- chat template: messages to a prompt --------------------------------------------------- */

/* Renders conversations with the Jinja template that a model brings, as Hugging Face's transformers
 * does: the same bytes. Immutable, and shared by threads like a vocabulary. */
typedef struct cera_template cera_template;

typedef struct cera_template_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the default host */
    /* At most one of the two. Neither: the vocabulary's own templates (tokenizer.chat_template, and
     * those named tool_use and so on); when it has none, CERA_E_UNSUPPORTED with the names
     * below. */
    const char *name; /* built in: chatml, gemma, granite, llama2, llama3, mistral, phi3, zephyr */
    const char *text; /* Jinja, n_text bytes, or up to NUL when n_text is 0; at most 1 MiB */
    size_t n_text;
} cera_template_options;
CERA_API void cera_template_options_init(cera_template_options *options);

/* vocab gives the template and the texts of BOS and EOS; NULL: neither. It is not kept. A template
 * that cannot be parsed is CERA_E_FORMAT with line and reason, and never replaced by another. */
CERA_API cera_status cera_template_new(const cera_vocab *vocab,
                                       const cera_template_options *options, cera_template **out,
                                       cera_error *err);
CERA_API void cera_template_free(cera_template *tmpl);
/* The source, [*n] bytes; of the template that is used when there are tools (it may be the same),
 * or when there are none. */
CERA_API const char *cera_template_source(const cera_template *tmpl, bool with_tools, size_t *n);

/* A run of the rendered text: written by the template, so that it may spell control tokens, or data
 * (messages, tools, variables), which is plain text whatever it spells. */
typedef struct cera_span {
    size_t start, size; /* bytes */
    bool is_literal;
} cera_span;

typedef struct cera_date {
    int year, month, day; /* month and day from 1; year 0: none */
    int hour, minute, second;
} cera_date;

typedef struct cera_render_options {
    size_t size;
    const char *tools; /* JSON: a list of tools as OpenAI's API has them; NULL: none */
    /* JSON: an object with more variables, such as {"enable_thinking": true}; it cannot take the
     * place of messages, tools and the like; NULL: none. */
    const char *variables;
    bool add_generation_prompt; /* end with the beginning of an answer; default true */
    /* Tool calls whose arguments are JSON text, as in OpenAI's API, are given to the template as an
     * object, or as text when it fails with an object. false: as they are. Default true. */
    bool parse_arguments;
    cera_date date;        /* for strftime_now, which is not defined without one; default none */
    const char *bos, *eos; /* texts; NULL: the vocabulary's */
    /* Limits on what the template does; 0: the defaults 1,000,000 steps, 64 MiB, 8 MiB. */
    size_t max_steps, max_memory, max_output;
} cera_render_options;
CERA_API void cera_render_options_init(cera_render_options *options);

typedef struct cera_rendering {
    char *text;       /* [n] UTF-8 and a NUL behind it */
    cera_span *spans; /* [n_spans] in order, covering the text */
    size_t n, n_spans;
} cera_rendering;

/* messages: JSON, a list of {"role": ..., "content": ...}; what else a message may hold is the
 * template's to say. Fails with CERA_E_ARG when JSON is wrong, CERA_E_FORMAT when the template
 * fails or refuses the conversation, CERA_E_LIMIT when it needs too much; with the line. Release
 * the result with cera_template_free_rendering. */
CERA_API cera_status cera_template_render(const cera_template *tmpl, const char *messages,
                                          const cera_render_options *options, cera_rendering *out,
                                          cera_error *err);
CERA_API void cera_template_free_rendering(const cera_template *tmpl, cera_rendering *rendering);

/* Ids of a text of which only the spans that are literal may spell control tokens; whole texts, not
 * spans, go through the vocabulary, so that ordinary conversations get the ids that the text alone
 * would. BOS is added where the file asks for it, unless the text begins with it. Release the ids
 * with cera_vocab_free_ids. */
CERA_API cera_status cera_vocab_encode_rendering(const cera_vocab *vocab,
                                                 const cera_rendering *rendering, int32_t **ids,
                                                 size_t *n_ids, cera_error *err);
/* ---- grammar: what a text may be --------------------------------------------------------- */

/* A language, compiled for a vocabulary: generations under it are texts of the language, to the
 * byte. Immutable, reference counted, shared by threads. */
typedef struct cera_grammar cera_grammar;

typedef struct cera_grammar_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the vocabulary's, or the default host without one */
    /* The rest is for schemas. */
    bool lenient;   /* leave out, with a warning in the log, what cannot be enforced */
    bool any_order; /* properties in any order; default: in the order of the schema */
    /* Between the tokens of JSON: nothing, one blank, or a newline and up to so many blanks behind
     * it, 1 to 64; 0: nothing ever. Default 20. */
    int max_blanks;
    /* The value stands in front of this tag, "</parameter>" say: a schema with "type": "string"
     * gives the text itself, without quotes and without the tag in it; another gives JSON with
     * \u003c for <, or such a text where it cannot be taken for a value. From < on, at most 64
     * bytes. NULL: JSON. */
    const char *end_tag;
} cera_grammar_options;
CERA_API void cera_grammar_options_init(cera_grammar_options *options);

/* From GBNF, the dialect of llama.cpp; docs/grammar.md has it. The first rule is "root". Errors
 * name line, column and rule: CERA_E_FORMAT, or CERA_E_LIMIT for what is too large, or CERA_E_ARG
 * for a token that the vocabulary lacks, or that ends a generation where more must follow. vocab
 * may be NULL, for matching text alone, and must live as long as the grammar is used. A rule that
 * nothing uses is a warning in the log. */
CERA_API cera_status cera_grammar_from_gbnf(const char *text, size_t n, const cera_vocab *vocab,
                                            const cera_grammar_options *options, cera_grammar **out,
                                            cera_error *err);

/* From a JSON Schema (2020-12, and the older spellings of what it has). Every text of the grammar
 * is valid JSON that the schema accepts; docs/grammar.md says which valid texts are left out. What
 * cannot be enforced is refused with CERA_E_UNSUPPORTED, its keyword and the JSON pointer to it,
 * unless options say `lenient`. A schema that nothing satisfies is refused, too. */
CERA_API cera_status cera_grammar_from_schema(const char *text, size_t n, const cera_vocab *vocab,
                                              const cera_grammar_options *options,
                                              cera_grammar **out, cera_error *err);
/* Another reference, and dropping one. */
CERA_API cera_grammar *cera_grammar_retain(cera_grammar *grammar);
CERA_API void cera_grammar_free(cera_grammar *grammar);
/* The grammar as GBNF, *n bytes: as it was given, or what a schema became. */
CERA_API const char *cera_grammar_text(const cera_grammar *grammar, size_t *n);

/* A place in a text of the grammar, for samplers of one's own and for checking texts; a session has
 * its own. One thread at a time. Making one allocates; nothing after that does. */
typedef struct cera_grammar_state cera_grammar_state;
CERA_API cera_status cera_grammar_state_new(cera_grammar *grammar, cera_grammar_state **out,
                                            cera_error *err);
CERA_API void cera_grammar_state_free(cera_grammar_state *state);
/* Puts `to` where `from` is, both of one grammar: a fork, or the way back of a rewind. The cost
 * depends on how deep rules are nested there, not on the length of the text. */
CERA_API cera_status cera_grammar_state_set(cera_grammar_state *to, const cera_grammar_state *from,
                                            cera_error *err);
CERA_API cera_status cera_grammar_state_reset(cera_grammar_state *state, cera_error *err);
/* Reads a token. CERA_E_ARG, and nothing has changed, when the grammar does not allow it here. */
CERA_API cera_status cera_grammar_state_read(cera_grammar_state *state, int32_t id,
                                             cera_error *err);
/* Reads n bytes; on failure the state is behind the last byte that fits. */
CERA_API cera_status cera_grammar_state_read_text(cera_grammar_state *state, const char *text,
                                                  size_t n, cera_error *err);
/* The tokens that may follow: bit id % 64 of (*bits)[id / 64]. End tokens are among them where the
 * text may end. Valid until the next call on the state. */
CERA_API cera_status cera_grammar_state_mask(cera_grammar_state *state, const uint64_t **bits,
                                             cera_error *err);
/* Whether the text may end here, and whether it must. */
CERA_API bool cera_grammar_state_is_complete(const cera_grammar_state *state);
CERA_API bool cera_grammar_state_is_at_end(const cera_grammar_state *state);
/* The fewest bytes that end the text from here; a token that the grammar names by its id counts as
 * one, and 2^30 stands for more. The first call on a state allocates. */
CERA_API cera_status cera_grammar_state_distance(cera_grammar_state *state, size_t *out,
                                                 cera_error *err);

/* ---- chat replies: generated text back to data --------------------------------------------- */

/* Takes a reply of a chat model apart while it comes: what is for the reader, the reasoning in
 * front of it (<think> ... </think> and the like), and tool calls with their arguments as JSON.
 * Text goes in as it is generated, control tokens as their text; how it is cut into pieces makes no
 * difference. */
typedef struct cera_chat_parser cera_chat_parser;

enum { CERA_CHAT_NO_CALL = -1 };

/* Text that begins like tool calls and is none. It is not lost: the sink gets it as content
 * next. */
typedef struct cera_chat_error {
    const char *message; /* what was expected */
    int call;            /* the call that had begun and is withdrawn, or CERA_CHAT_NO_CALL */
    const char *text;    /* [n_text] from the marker, or the end of the call before, to the fault */
    size_t n_text;
} cera_chat_error;

/* Where the parts go. Any callback may be NULL. Texts are UTF-8, and valid during the call; a
 * non-zero return ends the parsing with CERA_E_CANCELLED.
 *
 * A call is on_call, on_arguments any number of times, on_call_end; calls are numbered from 0 in
 * each reply and follow each other. The pieces of its arguments together are a JSON object, but for
 * a call that on_error withdraws. White space between a marker and other text is dropped. */
typedef struct cera_chat_sink {
    int (*on_content)(void *user, const char *text, size_t n);
    int (*on_reasoning)(void *user, const char *text, size_t n);
    int (*on_call)(void *user, int call, const char *name, size_t n);
    int (*on_arguments)(void *user, int call, const char *json, size_t n);
    int (*on_call_end)(void *user, int call);
    int (*on_error)(void *user, const cera_chat_error *error);
    void *user;
} cera_chat_sink;

typedef struct cera_chat_parser_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the default host */
    /* How the model marks its calls, by name:
     *   lfm2     <|tool_call_start|>[f(a="x")]<|tool_call_end|>, or a reply that is such a [list]
     *   xml      <tool_call> <function=f> <parameter=a> x </parameter> </function> </tool_call>
     *   hermes   <tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>
     *   llama3   <|python_tag|> and a call, or a reply that is {"name": "f", "parameters": {...}}
     *   mistral  [TOOL_CALLS] and a list in JSON, or f[ARGS]{...}
     *   granite  <|tool_call|> and a list in JSON
     *   phi4, nemotron, cohere, apriel, command-r   a list in JSON between their marks
     *   apertus                                     the same of objects {"f": {"a": "x"}}
     *   gigachat                                    an object in JSON
     *   seed, glm, hy3, minimax, minicpm, dsml, dsml-v4          tags around names and arguments
     *   deepseek, deepseek-r1, kimi, solar, harmony, functionary tags around names, then JSON
     *   functionary-3.2                             a name, a line feed and JSON behind >>>
     *   gemma4   <|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>
     *   kimi-k3  <|open|>tools<|sep|> and tags of this kind around names and arguments
     *   none     no calls
     * Between the markers any of these ways to write a call is read. NULL: as the template shows,
     * or else as models of the architecture do. */
    const char *format;
    const cera_template *tmpl; /* used by cera_chat_parser_new only; NULL: none */
    const char *arch;          /* as in cera_engine_info; NULL: not known */
    /* The tools, as in cera_render_options, each of another name; NULL: not known. They tell which
     * arguments are text where only a schema can (tags), and a reply that calls one of them without
     * markers is a call from its name on; otherwise such a reply is one when all of it is calls, at
     * its end. */
    const char *tools;
    /* The end of the rendered prompt, n_prompt bytes: when it opens reasoning, the reply begins in
     * it. NULL: nothing. */
    const char *prompt;
    size_t n_prompt;
    bool no_reasoning; /* reasoning is content, as it is */
} cera_chat_parser_options;
CERA_API void cera_chat_parser_options_init(cera_chat_parser_options *options);

CERA_API cera_status cera_chat_parser_new(const cera_chat_parser_options *options,
                                          const cera_chat_sink *sink, cera_chat_parser **out,
                                          cera_error *err);
CERA_API void cera_chat_parser_free(cera_chat_parser *parser);
/* The format in use; the name lives as long as the library. */
CERA_API const char *cera_chat_parser_format(const cera_chat_parser *parser);
/* The names of the formats, "none" among them, in no order that means anything: number i, or NULL
 * behind the last one. They live as long as the library. */
CERA_API const char *cera_chat_format_name(size_t i);
/* The texts that begin calls in a format, of the usual way to write them first: number i, or NULL
 * behind the last one and where there is no such format. What must not become a call has none of
 * them. They live as long as the library. */
CERA_API const char *cera_chat_format_mark(const char *format, size_t i);
/* Whether the next text belongs to reasoning: a grammar for the answer is for what comes after
 * it. */
CERA_API bool cera_chat_parser_is_reasoning(const cera_chat_parser *parser);
/* The next n bytes of a reply. Malformed text is no failure, see cera_chat_error. After a failure
 * the rest of the reply is not read. */
CERA_API cera_status cera_chat_parser_push(cera_chat_parser *parser, const char *text, size_t n,
                                           cera_error *err);
/* The reply has ended: gives on what was held back. A missing end marker is no error. The next push
 * begins another reply. */
CERA_API cera_status cera_chat_parser_finish(cera_chat_parser *parser, cera_error *err);

/* ---- tool calls as a grammar --------------------------------------------------------------- */

typedef enum cera_tool_choice {
    CERA_TOOL_AUTO = 0,     /* text, with calls where the model wants any */
    CERA_TOOL_REQUIRED = 1, /* one call or more, and nothing else */
    CERA_TOOL_NONE = 2,     /* text, in which no call begins */
} cera_tool_choice;

typedef struct cera_tool_grammar_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the vocabulary's, or the default host without one */
    cera_tool_choice choice;
    const char *only; /* name of the one tool that may be called, once where it must; NULL: any */
    bool single_call; /* at most one call in a reply; default: up to 16 in a row */
    /* How the model writes its calls, as in cera_chat_parser_options: the name of a format; NULL: as
     * the template (tmpl) shows, or else as models of the architecture do. */
    const char *format;
    const cera_template *tmpl; /* used by cera_grammar_from_tools only; NULL: none */
    const char *arch;          /* NULL: not known */
    const char *prompt;        /* the end of the rendered prompt, n_prompt bytes, which may begin */
    size_t n_prompt;           /* a call already; NULL: nothing */
    bool lenient;   /* for the schemas of arguments, like max_blanks as in cera_grammar_options */
    int max_blanks; /* default 20 */
} cera_tool_grammar_options;
CERA_API void cera_tool_grammar_options_init(cera_tool_grammar_options *options);

/* The replies that are calls of tools in the model's own form, and of these only such whose
 * arguments the tool's schema ("parameters", see cera_grammar_from_schema) accepts: what comes out
 * of a generation under it, cera_chat_parser reads back. tools: a list as in cera_render_options, n
 * bytes, each tool of another name. A tool takes no arguments that its schema does not name, unless
 * it says so; they come in the schema's order. vocab: as in cera_grammar_from_gbnf; marks that are
 * control tokens of it are read as these. Reasoning is no part of the grammar: begin with it when
 * cera_chat_parser_is_reasoning says that there is none any more.
 *
 * CERA_E_ARG for what is no list of tools, a tool whose "parameters" are no schema of an object or
 * are missing beside a member that is not known ("input_schema"), two tools of one name, or a name
 * in `only` that there is not; CERA_E_UNSUPPORTED for a format whose calls cannot be constrained
 * (none, gemma4, kimi-k3), a name that it cannot write and a schema that cannot be enforced, with
 * the tool's name, the keyword and the JSON pointer to it in the tool's schema. */
CERA_API cera_status cera_grammar_from_tools(const char *tools, size_t n, const cera_vocab *vocab,
                                             const cera_tool_grammar_options *options,
                                             cera_grammar **out, cera_error *err);

/* ---- engine: a model opened on a device -------------------------------------------------- */

typedef struct cera_engine cera_engine;

typedef enum cera_kv_type {
    CERA_KV_F16 = 0,
    CERA_KV_F32 = 1,
    CERA_KV_Q8_0 = 2, /* 8.5 bits a number; heads must be a multiple of 32 wide */
} cera_kv_type;

typedef struct cera_engine_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the default host */
    int n_threads;         /* 0: as many as the machine and its quota give this process; max 256 */
    int context_size;      /* positions per session, at most the model's own; 0: up to 4,096 */
    int chunk_size;        /* prompt tokens computed at a time, 1 to 4,096; 0: 512 */
    int max_batch;         /* sessions computed together, 1 to 256; 0: 16 */
    cera_kv_type kv_type;  /* of keys and values; default F16 */
    const char *cpu_tier;  /* highest ISA level to use, as cera_cpu_info names it; NULL: the best.
                            * All give the same bits, but matrices of BF16 others at amx. */
    const char *pre;       /* as in cera_vocab_options */
    /* For keys, values and recurrent states: those of sessions, and those that are kept for prompts
     * to come, which go, least recently used first, before the sum passes this. What sessions hold
     * is never refused. 0: 256 MiB, or what two sessions with a full context take if that is
     * more. */
    uint64_t cache_bytes;
    bool no_reuse; /* every input is computed, whatever the engine knows, and nothing is kept */
    /* A folder where what was computed is kept for engines to come, of this process and of others,
     * at the same time too; NULL: none. Its files hold the texts. It is made if it is not there,
     * and belongs to this user alone. What is damaged or was made by something else is ignored and
     * removed; a disk that is full or read-only costs a warning in the log and nothing else. */
    const char *cache_dir;
    uint64_t cache_disk_bytes; /* all files in it, least recently used go first; 0: 10 GiB */
    /* Opening waits until every page of the weights is in memory and mapped; otherwise the first
     * tokens bring them in. */
    bool prefault;
    /* The path of a file that cera_engine_tune wrote; NULL: what is known of the processor. Only
     * speed depends on it. Opening fails with CERA_E_STATE when another processor was measured,
     * CERA_E_FORMAT when it is no such file, CERA_E_IO when it cannot be read. */
    const char *tuning;
} cera_engine_options;
CERA_API void cera_engine_options_init(cera_engine_options *options);

/* Opens a model. On failure nothing stays open and nothing is half loaded. */
CERA_API cera_status cera_engine_open(const char *path, const cera_engine_options *options,
                                      cera_engine **out, cera_error *err);
CERA_API cera_status cera_engine_open_source(const cera_source *source,
                                             const cera_engine_options *options, cera_engine **out,
                                             cera_error *err);
/* Drops the caller's reference. Sessions hold one each, so the order of closing is free. */
CERA_API void cera_engine_close(cera_engine *engine);
/* Another reference to the same engine, for an owner that closes it on its own. */
CERA_API cera_engine *cera_engine_retain(cera_engine *engine);

typedef struct cera_engine_info {
    const char *arch;  /* general.architecture */
    const char *name;  /* general.name, or "" */
    const char *quant; /* as in cera_file_info */
    uint64_t n_params;
    uint64_t weight_bytes; /* of the tensors in the file */
    uint64_t memory_bytes; /* allocated now, without the mapped file */
    int n_layer, n_embd, n_head, n_vocab;
    int context_size;       /* of a session */
    int context_size_model; /* that the model was trained for */
    int n_threads;
    const char *cpu_tier; /* in use */
    double load_ms;
} cera_engine_info;
CERA_API void cera_engine_get_info(const cera_engine *engine, cera_engine_info *out);

/* What an engine remembers. Keys and values of 64 positions are a page, which sessions with a
 * common beginning share. An engine keeps what was computed, prompts and answers, after its session
 * is gone or has moved on: an input starts from the longest beginning that is known, and its
 * results are the same, to the bit, as if it had been computed. All bytes are exact. */
typedef struct cera_engine_stats {
    uint64_t budget_bytes;       /* cache_bytes */
    uint64_t page_bytes_used;    /* pages that sessions hold; one that several hold counts once */
    uint64_t page_bytes_cached;  /* pages that are only kept */
    uint64_t state_bytes_used;   /* recurrent states that sessions hold */
    uint64_t state_bytes_cached; /* that are only kept */
    uint64_t free_bytes;         /* of pages and states, held ready for the next use */
    uint64_t n_blocks;           /* spans of up to 64 tokens that are known */
    uint64_t n_hits;             /* inputs for which more was known than their session had ... */
    uint64_t n_misses;           /* ... and the others */
    uint64_t n_tokens_reused;    /* tokens of inputs that were known ... */
    uint64_t n_tokens_computed;  /* ... and those that had to be computed */
    uint64_t n_evictions;        /* blocks that were given up to keep to the budget */
    uint64_t n_blocks_read;      /* spans of up to 64 tokens that came from cache_dir ... */
    uint64_t n_blocks_written;   /* ... and that were put there */
} cera_engine_stats;
CERA_API void cera_engine_get_stats(const cera_engine *engine, cera_engine_stats *out);

CERA_API const cera_vocab *cera_engine_vocab(const cera_engine *engine);

/* What bounds the speed of an engine on this machine. The rates are those of its threads with its
 * instruction sets, measured when asked for: reading the weights of a token and doing nothing else,
 * and multiplying numbers that need not be read. The counts are of the weights that a token is
 * multiplied by (of experts, those that it uses); attention comes on top of them.
 *
 *     tokens generated per second          at most  read_rate / token_bytes
 *     tokens of a long prompt per second   at most  multiply_rate / (token_macs - result_macs)
 *
 * The second bound does not hold for weights that are multiplied as floats (F32, F16, BF16, IQ1,
 * IQ2, IQ3, TQ, MXFP4), whose rate is lower. */
typedef struct cera_roofline {
    double read_rate;     /* bytes per second */
    double multiply_rate; /* multiplications of int8, each with its addition, per second */
    uint64_t token_bytes;
    uint64_t token_macs; /* multiplications, each with its addition */
    /* Those of them behind the last layer's keys and states: for one token of a prompt only. */
    uint64_t result_macs;
} cera_roofline;

/* Takes the time of some tokens. CERA_E_STATE while a session of the engine computes. */
CERA_API cera_status cera_engine_roofline(cera_engine *engine, cera_roofline *out, cera_error *err);

/* Measures with the engine's weights and threads how far ahead weights should be asked for, which
 * takes the time of some forty tokens, and writes that to a file for cera_engine_options.tuning,
 * with the processor's name. The file appears when it is complete and takes the place of one that
 * was there. The engine itself stays as it was opened. CERA_E_STATE while a session of the engine
 * computes, CERA_E_IO when the file cannot be written, which is looked at before anything is
 * measured. */
CERA_API cera_status cera_engine_tune(cera_engine *engine, const char *path, cera_error *err);

typedef enum cera_pooling {
    CERA_POOLING_NONE = 0, /* a row per token */
    CERA_POOLING_MEAN = 1, /* one row */
} cera_pooling;

/* Hidden states after the final norm, for ids[0, n) from position 0, independent of any session.
 * out is [n][n_embd] for CERA_POOLING_NONE, [n_embd] for CERA_POOLING_MEAN. No normalisation. */
CERA_API cera_status cera_engine_embed(cera_engine *engine, const int32_t *ids, size_t n,
                                       cera_pooling pooling, float *out, cera_error *err);

/* ---- adapters: what is added to a model while it runs ------------------------------------- */

/* A LoRA adapter, y = W x + scale B (A x) for some of the model's matrices, or a control vector,
 * which is added to what leaves a layer. The weights stay as they are, so sessions of one engine
 * may have different adapters, and change them between tokens. Immutable, reference counted, shared
 * by threads. */
typedef struct cera_adapter cera_adapter;

/* Opens an adapter for the model of an engine, which it holds. The path is
 *   a GGUF file     as llama.cpp's tools write it, LoRA or control vector
 *   a folder        of PEFT's, with adapter_config.json and adapter_model.safetensors (or the path
 *                   of the latter): LoRA with alpha over rank, or over its root, and patterns of
 *                   both
 * What it says is copied: the file may go. All of it is understood and fits, or nothing is opened:
 * CERA_E_UNSUPPORTED names another architecture, a tensor that cannot be adapted, a kind of
 * adapter; CERA_E_FORMAT a tensor with both shapes, a missing half, numbers that are not finite. */
CERA_API cera_status cera_adapter_open(cera_engine *engine, const cera_source *source,
                                       cera_adapter **out, cera_error *err);
/* Drops the caller's reference. Sessions that have the adapter keep it. */
CERA_API void cera_adapter_close(cera_adapter *adapter);
CERA_API cera_adapter *cera_adapter_retain(cera_adapter *adapter);

typedef enum cera_adapter_kind {
    CERA_ADAPTER_LORA = 0,
    CERA_ADAPTER_CONTROL = 1, /* a control vector */
} cera_adapter_kind;

typedef struct cera_adapter_info {
    cera_adapter_kind kind;
    size_t n_tensors;       /* of the model, that it adds to; of a control vector: layers */
    int min_rank, max_rank; /* 0 of a control vector */
} cera_adapter_info;
CERA_API void cera_adapter_get_info(const cera_adapter *adapter, cera_adapter_info *out);

/* ---- session: one timeline --------------------------------------------------------------- */

typedef struct cera_session cera_session;

typedef struct cera_session_options {
    size_t size;
    int context_size; /* at most the engine's; 0: the engine's */
} cera_session_options;
CERA_API void cera_session_options_init(cera_session_options *options);

CERA_API cera_status cera_session_new(cera_engine *engine, const cera_session_options *options,
                                      cera_session **out, cera_error *err);
CERA_API void cera_session_free(cera_session *session);

/* Text or ids to append; exactly one of them is set. At position 0 text gets BOS where the file
 * asks for it, unless its first token already is BOS. Ids are taken as they are. */
typedef struct cera_input {
    const char *text; /* n_text bytes, or up to NUL when n_text is 0 */
    size_t n_text;
    const int32_t *ids;
    size_t n_ids;
    bool parse_special; /* text that spells a control token becomes that token */
    bool no_bos;
} cera_input;

/* Computes the input. All of it is appended, or none: when it does not fit the context the call
 * fails with CERA_E_CONTEXT and both numbers, and after a cancel or any other error the session is
 * where it was before the call. */
CERA_API cera_status cera_session_append(cera_session *session, const cera_input *input,
                                         cera_error *err);
/* Plain text: nothing in it becomes a control token. */
CERA_API cera_status cera_session_append_text(cera_session *session, const char *text,
                                              cera_error *err);
CERA_API cera_status cera_session_append_ids(cera_session *session, const int32_t *ids, size_t n,
                                             cera_error *err);

/* How likely a text is: appends ids[0, n) and gives the natural logarithm of the probability that
 * the model gave each of them, behind all that stands before it. logprobs is [n]; NaN for a token
 * at position 0, which nothing stands before. The same call with the same tokens behind another
 * text compares answers; exp(-mean) over a long text is its perplexity. Fails as
 * cera_session_append. */
CERA_API cera_status cera_session_score(cera_session *session, const int32_t *ids, size_t n,
                                        float *logprobs, cera_error *err);
/* Makes the history ids[0, n): goes back, changes the middle, appends, and computes only what is
 * neither the session's own nor known to the engine; of a history that changes, that is at least
 * the last token. ids may be the session's own history. All or nothing, as append. */
CERA_API cera_status cera_session_sync(cera_session *session, const int32_t *ids, size_t n,
                                       cera_error *err);
/* Back to `position`, at most the present one: the logits are those that followed it then. Where a
 * model has recurrent states or windows, what is not known any more is computed again. */
CERA_API cera_status cera_session_rewind(cera_session *session, size_t position, cera_error *err);
/* Another session that is where this one is, and goes its own way. Costs no copy of keys and
 * values: the two share them until one writes. */
CERA_API cera_status cera_session_fork(cera_session *session, cera_session **out, cera_error *err);

/* An adapter in a session's list. */
typedef struct cera_adapter_use {
    cera_adapter *adapter;
    float scale; /* times the adapter's own (alpha over rank); 0: as if it were not in the list */
    int first_layer,
        last_layer; /* of a control vector only those, from 0; last_layer 0: up to the end */
} cera_adapter_use;

/* From now on the session computes with these adapters, up to 64 at once, all of the session's
 * engine, in place of those it had; n 0: with none. They are held. What has been computed stays,
 * with the logits, and append and generate go on from it. It is never taken for what the new list
 * would have computed: a sync or rewind after a change computes everything again, and other
 * sessions find only what was computed with their own list. A list is the same when adapters (by
 * content, not path) and scales are, in the same order. A fork has the list; a saved session is
 * loaded by sessions that have the same one. On failure nothing has changed. */
CERA_API cera_status cera_session_set_adapters(cera_session *session, const cera_adapter_use *uses,
                                               size_t n, cera_error *err);

/* As cera_engine_embed, with the session's adapters. What the session has computed has no part in
 * it, and stays. */
CERA_API cera_status cera_session_embed(cera_session *session, const int32_t *ids, size_t n,
                                        cera_pooling pooling, float *out, cera_error *err);

/* Drops n_drop tokens behind the first n_keep: those behind them come to lower positions and keep
 * their keys and values, which are not what computing the shorter text would give, for they have
 * seen the dropped ones. Logits stay. What follows is this session's alone and is never reused by
 * another; what its keys came from is kept, so that shifting again does not add to the error.
 * n_keep + n_drop is less than the position. CERA_E_UNSUPPORTED where keys cannot be moved
 * (recurrent states, windows, YaRN): there cera_session_sync with the shorter history computes it
 * again. A grammar's text that is open stays so when it and the token before it are behind what is
 * dropped. */
CERA_API cera_status cera_session_shift(cera_session *session, size_t n_keep, size_t n_drop,
                                        cera_error *err);

/* Writes tokens, keys, values, states and logits to a file, which appears when it is complete:
 * whatever fails, what was there before stays. A grammar's text that is still open is not part of
 * it. Fails with CERA_E_STATE when nothing has been appended, CERA_E_UNSUPPORTED after a shift. The
 * first call of an engine reads all weights, for a digest of them. */
CERA_API cera_status cera_session_save(cera_session *session, const char *path, cera_error *err);
/* Makes the session what was saved, whatever it was before: it goes on with the same bits. The file
 * is checked against a digest of itself and against this model's weights, not their path; engines
 * may differ in threads, chunks and instruction set. Fails, leaving the session as it was, with
 * CERA_E_FORMAT for what is no such file or is cut short or damaged; CERA_E_UNSUPPORTED for another
 * version, other weights, numerics or type of keys; CERA_E_CONTEXT when it does not fit;
 * CERA_E_IO. */
CERA_API cera_status cera_session_load(cera_session *session, const char *path, cera_error *err);

/* Logits for the next token, [n_vocab]; NULL when nothing has been appended. Valid until the next
 * call on the session. */
CERA_API const float *cera_session_logits(const cera_session *session);
/* The tokens so far, [n]. Valid until the next call on the session. */
CERA_API const int32_t *cera_session_history(const cera_session *session, size_t *n);
CERA_API size_t cera_session_position(const cera_session *session);

typedef struct cera_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -infinity bans the token */
} cera_logit_bias;

/* The stages of sampling: name, text. Those that need a setting do nothing until they get it. */
#define CERA_SAMPLER_LIST(X)                                                                       \
    X(CERA_SAMPLER_PENALTIES, "penalties") /* repetition, frequency, presence */                   \
    X(CERA_SAMPLER_DRY, "dry")                                                                     \
    X(CERA_SAMPLER_TEMPERATURE, "temperature")                                                     \
    X(CERA_SAMPLER_TOP_N_SIGMA, "top_n_sigma")                                                     \
    X(CERA_SAMPLER_TOP_K, "top_k")                                                                 \
    X(CERA_SAMPLER_TYPICAL_P, "typ_p")                                                             \
    X(CERA_SAMPLER_TOP_P, "top_p")                                                                 \
    X(CERA_SAMPLER_MIN_P, "min_p")                                                                 \
    X(CERA_SAMPLER_XTC, "xtc")

typedef enum cera_sampler {
#define CERA_SAMPLER_ENUM(name, text) name,
    CERA_SAMPLER_LIST(CERA_SAMPLER_ENUM)
#undef CERA_SAMPLER_ENUM
} cera_sampler;

typedef struct cera_generate_options {
    size_t size;
    int max_tokens; /* default 256; -1: until the model or the context ends */
    /* Sampling. First the bias, then the stages named in `samplers`, then the draw. A temperature
     * of 0, below or not finite, or top_k == 1, is greedy: the largest logit, the lowest id among
     * equals, after bias, frequency and presence penalties and DRY, without the repetition
     * penalty. */
    float temperature; /* 0.7 */
    /* Dynamic temperature: with H the entropy of the candidates and n their number, from
     * (temperature - range) where one is sure to (temperature + range) where all are alike, by
     * (H / log n)^exponent. */
    float temperature_range;    /* 0: off; at most the temperature */
    float temperature_exponent; /* 1, 0 or more */
    int top_k;                  /* 40: the k largest and all equal to the last of them; 0: off */
    float top_p;     /* 0.9, in [0, 1]: the most probable ones that together reach it; 1: off */
    float min_p;     /* 0.05, in [0, 1]: those that have this share of the best one's probability */
    float typical_p; /* 1, in [0, 1]: like top_p, nearest to the entropy first; 1: off */
    float top_n_sigma; /* 0: logits within n standard deviations of the largest; 0: off */
    /* XTC: with this probability, all candidates at or above the threshold but the least probable
     * of them go. */
    float xtc_probability; /* 0, in [0, 1] */
    float xtc_threshold;   /* 0.1, in [0, 1] */
    /* Mirostat 2, instead of the stages from top_n_sigma to xtc: drops candidates with a surprise
     * (-log2 p) above mu, which starts at 2 tau and after each token moves by
     * -eta (surprise - tau). */
    float mirostat_tau;       /* 0: off */
    float mirostat_eta;       /* 0.1 */
    float repetition_penalty; /* 1.1, above 0: positive logits over it, negative ones times it */
    float frequency_penalty;  /* 0: taken off for each occurrence */
    float presence_penalty;   /* 0: taken off once */
    int penalty_window; /* 0: tokens of this call; n: the last n of the history; -1: all of it */
    /* DRY: a token that would repeat a sequence, the n >= allowed_length tokens before it being the
     * same as before its last occurrence, loses multiplier * base^(n - allowed_length). */
    float dry_multiplier;   /* 0: off */
    float dry_base;         /* 1.75, at least 1 */
    int dry_allowed_length; /* 2, at least 1 */
    int dry_window;         /* -1: of the whole history; n: of its last n tokens */
    /* [n_dry_breakers] tokens with one of these texts in them end a sequence; up to 16. NULL: line
     * feed, colon, double quote, asterisk. */
    const char *const *dry_breakers;
    size_t n_dry_breakers;
    const cera_sampler *samplers; /* [n_samplers] each at most once; NULL: all, as in the list */
    size_t n_samplers;
    uint64_t seed;           /* 0 is a seed like any other */
    const char *const *stop; /* [n_stop] texts that end the generation and are not part of it */
    size_t n_stop;           /* up to 16 texts of up to 256 bytes */
    const int32_t *stop_ids; /* [n_stop_ids] tokens that end it, besides the model's own */
    size_t n_stop_ids;
    bool ignore_eos;             /* the model's own end tokens are never chosen */
    const cera_logit_bias *bias; /* [n_bias] */
    size_t n_bias;               /* up to 1,024 */
    /* When the context is full, drop the older half of what stands behind the first n_keep tokens
     * and go on: as cera_session_shift where that may be, as cera_session_sync where not. Not
     * together with n_draft. Default: end with CERA_FINISH_CONTEXT. */
    bool shift;
    int n_keep;
    int n_logprobs; /* alternatives in cera_token_info, up to 20; 0: none */
    /* Only texts of this grammar, NULL: any. It is made for the engine's vocabulary. Its mask comes
     * before everything else; end tokens are chosen only where the text may end, and where it must
     * the generation ends by itself, with CERA_FINISH_STOP. When a generation was ended by anything
     * else and nothing is appended, the next one with the same grammar goes on in the text. */
    cera_grammar *grammar;
    /* Guesses at tokens to come, up to n_draft at a time, 0 to 16; 0: none. They change no answer,
     * only the time it takes: the model computes them together with a token, and a row is used when
     * the sampler chooses just that token. They come from `draft`, a smaller model with the same
     * vocabulary (CERA_E_ARG otherwise) that stays open during the call; NULL: from what followed
     * the same tokens earlier in the history. The session's adapters are for its own model: `draft`
     * guesses without. How many are tried follows from what they save. */
    int n_draft;
    cera_engine *draft;
} cera_generate_options;
CERA_API void cera_generate_options_init(cera_generate_options *options);

typedef struct cera_logprob {
    int32_t id;
    float logprob; /* natural logarithm, of the model's own distribution before sampling options */
} cera_logprob;

typedef struct cera_token_info {
    int32_t id;
    float logprob;           /* NaN unless n_logprobs > 0 */
    const cera_logprob *top; /* [n_top], descending */
    int n_top;
} cera_token_info;

/* Where a generation goes. Any callback may be NULL. They run on the calling thread; a non-zero
 * return ends the generation with CERA_FINISH_SINK. */
typedef struct cera_sink {
    /* Whole UTF-8 characters only; a part that is still open, or that may begin a stop text, is
     * held back until it is decided. Bytes that can never become UTF-8 arrive as U+FFFD; control
     * tokens arrive as their text. */
    int (*on_text)(void *user, const char *text, size_t n);
    int (*on_token)(void *user, const cera_token_info *token);
    void *user;
} cera_sink;

typedef enum cera_finish {
    CERA_FINISH_STOP = 0,    /* an end token, a stop token or a stop text */
    CERA_FINISH_LENGTH = 1,  /* max_tokens */
    CERA_FINISH_CONTEXT = 2, /* the context is full */
    CERA_FINISH_CANCELLED = 3,
    CERA_FINISH_SINK = 4,
} cera_finish;
/* "stop", "length", "context", "cancelled", "sink". */
CERA_API const char *cera_finish_name(cera_finish finish);

typedef struct cera_summary {
    cera_finish finish;
    size_t n_prompt; /* tokens appended, or in the last sync, since the previous generation */
    size_t n_reused; /* of these: known, so that they were not computed */
    size_t n_generated;
    size_t n_drafted, n_accepted; /* guesses that were computed, and that came true */
    double prompt_ms, generate_ms, first_token_ms; /* first token: from the call */
    bool is_unfinished; /* there was a grammar, and the text ended or stopped in its middle */
} cera_summary;

/* Generates until something ends it. Every token handed to the sink is part of the history (after
 * an error the last one, and with guesses the last ones, may be missing), the end token is not. A
 * stop text ends the text before it; its tokens stay in the history. Needs logits, so something
 * must have been appended: CERA_E_STATE otherwise. summary may be NULL. */
CERA_API cera_status cera_session_generate(cera_session *session,
                                           const cera_generate_options *options,
                                           const cera_sink *sink, cera_summary *summary,
                                           cera_error *err);

/* Asks the call that is running, or the next one, to end: an append fails with CERA_E_CANCELLED,
 * a generation ends with CERA_FINISH_CANCELLED within one token. Any thread, or a signal
 * handler. */
CERA_API void cera_session_cancel(cera_session *session);
/* Back to position 0; memory is kept for reuse. Clears a pending cancel. Does nothing when called
 * by the session's own sink. */
CERA_API void cera_session_reset(cera_session *session);

/* ---- quantising: the same model in fewer bits -------------------------------------------- */

typedef struct cera_quantize_options {
    size_t size;
    const cera_host *host; /* copied; NULL: the default host */
    int n_threads;         /* up to 256; 0: as many as suit this machine */
    /* Element types, such as "Q6_K", of the output matrix (also where the embedding stands in for
     * it) and of the token embedding; NULL: as the mixture has it. */
    const char *output_type, *embedding_type;
    bool pure;             /* no mixture: one type for all tensors that are quantised */
    bool keep_output;      /* the output matrix stays as it is */
    bool allow_requantize; /* take weights that were quantised before, which costs quality */
    /* How far it is, in bytes of weights read; a value other than 0 ends it with CERA_E_CANCELLED.
     * Runs on the calling thread, several times a second. */
    int (*on_progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} cera_quantize_options;
CERA_API void cera_quantize_options_init(cera_quantize_options *options);

typedef struct cera_quantize_summary {
    uint64_t bytes_before, bytes_after; /* of the tensors */
    size_t n_tensors, n_quantized;
    size_t n_fallback; /* tensors whose rows do not fit the type that was meant for them */
} cera_quantize_summary;

/* Writes a GGUF file whose weights have the given type: an element type, or a mixture such as
 * "Q4_K_M", in any case. The mixtures are those of llama.cpp. The file appears under its name when
 * it is complete; whatever fails, what was there before stays. Weights that are not finite, or too
 * large for the type, fail with CERA_E_FORMAT naming the tensor; a source that is quantised already
 * with CERA_E_UNSUPPORTED, unless it is allowed. summary may be NULL. */
CERA_API cera_status cera_quantize(const cera_source *source, const char *path, const char *type,
                                   const cera_quantize_options *options,
                                   cera_quantize_summary *summary, cera_error *err);
/* The names of the types that cera_quantize takes, by index; NULL behind the last. */
CERA_API const char *cera_quantize_type(size_t i);

/* ---- converting: from a folder of Hugging Face's to a GGUF file --------------------------- */

typedef struct cera_convert_options {
    size_t size;
    const cera_host *host; /* as in cera_quantize_options, like the members without a comment */
    int n_threads;
    const char *pre; /* name of the pre-tokenizer; NULL: found by its regular expression */
    int (*on_progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} cera_convert_options;
CERA_API void cera_convert_options_init(cera_convert_options *options);

/* Writes a GGUF file of a folder with config.json, model.safetensors (or its index and parts) and
 * tokenizer.model or tokenizer.json. type: F32, F16, BF16 or Q8_0, for matrices; all else is F32.
 * The file appears when it is complete, as with cera_quantize, and has been opened as a model: what
 * contradicts itself is not made. Fails with CERA_E_UNSUPPORTED naming an architecture, tensor or
 * tokenizer that is not known, CERA_E_FORMAT naming what is malformed or missing. */
CERA_API cera_status cera_convert(const char *folder, const char *path, const char *type,
                                  const cera_convert_options *options,
                                  cera_quantize_summary *summary, cera_error *err);

/* ---- processor --------------------------------------------------------------------------- */

typedef struct cera_cpu_info {
    const char *tier; /* best ISA level, the last one of tiers */
    char tiers[64];   /* all that it has, ascending, space separated: "scalar", "avx2", "avx_vnni",
                       * "avx512", "amx"; "scalar", "neon", "dotprod", "i8mm" */
    char features[256]; /* space separated, as found */
    int n_logical;      /* processors of the machine */
    int n_allowed;      /* that the affinity mask allows */
    double quota;       /* processors' worth of time that the cgroup allows; 0: no limit */
    int n_performance;  /* cores after leaving out hyper-thread siblings and efficiency cores */
    int n_efficiency;
    int n_numa;
    uint64_t l2_bytes, l3_bytes; /* 0: unknown */
    int n_threads;               /* the default width of the worker pool */
    char why[256];               /* how n_threads came about */
    /* What multiplies matrices of floats, with its version, in a library built with CERA_BLAS; else
     * NULL. Results then depend on how rows are batched: see docs/numerics.md. */
    const char *blas;
} cera_cpu_info;
/* host may be NULL. On Linux this, like opening an engine, asks for the tile registers of AMX where
 * the processor has them: the frame of a signal then takes about 11 KiB of a stack, alternate ones
 * included. */
CERA_API void cera_cpu_get_info(const cera_host *host, cera_cpu_info *out);

#ifdef __cplusplus
}
#endif
#endif
