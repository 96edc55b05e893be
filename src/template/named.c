/* Templates of our own for the usual formats, for files that bring none. */
#include "template/template.h"

/* A system message goes in front of the first user message, where the format has no place for
 * it. */
#define SYSTEM_INTO_USER                                                                           \
    "{%- set ns = namespace(system='') -%}"                                                        \
    "{%- for m in messages if m.role == 'system' -%}"                                              \
    "{%- set ns.system = ns.system + text(m.content) + '\\n\\n' -%}"                               \
    "{%- endfor -%}"

/* Roles that the format has no way to write. */
#define NO_OTHER_ROLE                                                                              \
    "{%- else -%}{{ raise_exception('expected the roles system, user and assistant alone') }}"     \
    "{%- endif -%}"

/* Content is a text, null, or a list of parts of which the texts count. */
#define TEXT_MACRO                                                                                 \
    "{%- macro text(c) -%}"                                                                        \
    "{%- if c is string -%}{{ c }}"                                                                \
    "{%- elif c is iterable and c is not mapping -%}"                                              \
    "{%- for part in c if part.type == 'text' -%}{{ part.text }}{%- endfor -%}"                    \
    "{%- endif -%}"                                                                                \
    "{%- endmacro -%}"

static const struct {
    const char *name, *text;
} named[] = {
    { "chatml",
      TEXT_MACRO "{%- for m in messages -%}"
                 "{{ '<|im_start|>' + m.role + '\\n' + text(m.content) + '<|im_end|>\\n' }}"
                 "{%- endfor -%}"
                 "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}"
                 "{%- endif -%}" },
    { "gemma", TEXT_MACRO SYSTEM_INTO_USER
      "{{ bos_token }}"
      "{%- for m in messages if m.role != 'system' -%}"
      "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
      "{%- if loop.first -%}{{ ns.system }}{%- endif -%}"
      "{{ text(m.content) | trim + '<end_of_turn>\\n' }}"
      "{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}" },
    { "granite",
      TEXT_MACRO "{%- for m in messages -%}"
                 "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + text(m.content) +"
                 " '<|end_of_text|>\\n' }}"
                 "{%- endfor -%}"
                 "{%- if add_generation_prompt -%}"
                 "{{ '<|start_of_role|>assistant<|end_of_role|>' }}"
                 "{%- endif -%}" },
    { "llama2", TEXT_MACRO SYSTEM_INTO_USER
      "{%- for m in messages if m.role != 'system' -%}"
      "{%- if m.role == 'user' -%}"
      "{{ bos_token + '[INST] ' }}"
      "{%- if loop.first and ns.system -%}{{ '<<SYS>>\\n' + ns.system | trim + '\\n<</SYS>>\\n\\n' }}"
      "{%- endif -%}"
      "{{ text(m.content) | trim + ' [/INST]' }}"
      "{%- elif m.role == 'assistant' -%}{{ ' ' + text(m.content) | trim + ' ' + eos_token }}" NO_OTHER_ROLE
      "{%- endfor -%}" },
    { "llama3", TEXT_MACRO "{{ bos_token }}"
                           "{%- for m in messages -%}"
                           "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' +"
                           " text(m.content) | trim + '<|eot_id|>' }}"
                           "{%- endfor -%}"
                           "{%- if add_generation_prompt -%}"
                           "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
                           "{%- endif -%}" },
    { "mistral", TEXT_MACRO SYSTEM_INTO_USER
      "{{ bos_token }}"
      "{%- for m in messages if m.role != 'system' -%}"
      "{%- if m.role == 'user' -%}"
      "{{ '[INST] ' + (ns.system if loop.first else '') + text(m.content) + ' [/INST]' }}"
      "{%- elif m.role == 'assistant' -%}{{ ' ' + text(m.content) + eos_token }}" NO_OTHER_ROLE
      "{%- endfor -%}" },
    { "phi3", TEXT_MACRO "{%- for m in messages -%}"
                         "{{ '<|' + m.role + '|>\\n' + text(m.content) + '<|end|>\\n' }}"
                         "{%- endfor -%}"
                         "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}" },
    { "zephyr",
      TEXT_MACRO "{%- for m in messages -%}"
                 "{{ '<|' + m.role + '|>\\n' + text(m.content) + eos_token + '\\n' }}"
                 "{%- endfor -%}"
                 "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}" },
};

const char *cr_template_named(const char *name)
{
    for (size_t i = 0; i < CR_COUNT(named); i++)
        if (strcmp(named[i].name, name) == 0)
            return named[i].text;
    return NULL;
}

const char *cr_template_names(void)
{
    return "chatml, gemma, granite, llama2, llama3, mistral, phi3, zephyr";
}
