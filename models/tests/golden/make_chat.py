"""Make `chat.json` beside this script: conversations as transformers renders them. Needs transformers and Jinja2 only."""

import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as chat

# Written for this, in the manner of published ones.
TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "blocks": """{{ bos_token }}
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = '' %}
    {%- set rest = messages %}
{%- endif %}
{%- if tools is not none and tools %}
    {{- 'tools: ' ~ tools | tojson }}
{%- endif %}
{{ '<date>' + strftime_now('%d %b %Y') + '</date>' }}
{% for message in rest %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message.role == 'user' %}
[INST] {{ (system + '\\n\\n' if loop.first and system else '') + message.content.strip() }} [/INST]
    {%- else %}
        {%- generation %}
 {{ message.content | trim + eos_token }}
        {%- endgeneration %}
    {%- endif %}
{% endfor %}
""",
    "namespace": "{%- set ns = namespace(count=0, last='') %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.count = ns.count + 1 %}"
    "{% set ns.last = m.content %}{% endif %}{% if loop.last %}{% continue %}{% endif %}{{ loop.index }}:{{ m.content[:3] }};{% endfor %}"
    "{{ ns.count }} {{ ns.last.upper() }} {{ ns.last.split(' ')[-1] }}",
    "printing": "{{ messages[0] }} {{ [1, 2.5, true, none, 'a\\'b', \"c\"] }} {{ {'k': [], 'n': {'m': false}} }} {{ true }} {{ none }} {{ 1e3 }} {{ 7 // 2 }} {{ 7 / 2 }}",
    "json": "{{ messages | tojson }} {{ messages[0] | tojson(indent=4) }} {{ {'é': '<b>&\\'', 'x': [1, 2.0, none, true]} | tojson }} {{ 'a' | tojson }}",
    "filters": "{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} "
    "{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='content') | first | default('none') }} {{ '  x ' | trim }}|{{ 'ab' | upper }} "
    "{{ messages[-1].content is string }} {{ missing is defined }} {{ 'System' in messages[0].content }} {{ messages | length > 2 }}",
    "refusing": "{% if messages | length > 1 %}{{ raise_exception('one message only') }}{% endif %}{{ messages[0].content }}",
    "macro": "{% macro show(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}{% for m in messages -%}\n  {{ show(m) }}\n{%- endfor +%}\n end",
}
# What models that call tools are taught by. The conversations below are theirs.
TOOL_TEMPLATES = {
    # Hermes and Qwen 2.5: signatures between tags, a line each, in the system's message; calls and results between tags.
    "tagged": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'You may call functions. Their signatures:\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\nA call is a JSON object between tags:\\n<tool_call>\\n{\"name\": ..., \"arguments\": ...}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) or (message.role == 'assistant' and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{\"name\": \"' }}
            {{- tool_call.name }}
            {{- '\", \"arguments\": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    # Llama 3.1: signatures with indents in the first user's message, one call a message and nothing else in it.
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|header|>system<|/header|>\\n\\n' }}
{%- if tools is not none %}
    {{- 'Environment: tools\\n' }}
{%- endif %}
{{- 'Today: ' + strftime_now('%d %b %Y') + '\\n\\n' }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{{- system_message + '<|end|>' }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content'] | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception('There is no user message to put the tools into.') }}
    {%- endif %}
    {{- '<|header|>user<|/header|>\\n\\nAnswer by {\"name\": function, \"parameters\": arguments}.\\n\\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- '\\n\\n' }}
    {%- endfor %}
    {{- first_user_message + '<|end|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|header|>' + message['role'] + '<|/header|>\\n\\n' + message['content'] | trim + '<|end|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception('One call a message.') }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|header|>assistant<|/header|>\\n\\n{\"name\": \"' + tool_call.name + '\", \"parameters\": ' }}
        {{- tool_call.arguments | tojson }}
        {{- '}<|end|>' }}
    {%- else %}
        {{- '<|header|>ipython<|/header|>\\n\\n' }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header|>assistant<|/header|>\\n\\n' }}
{%- endif %}
""",
    # Mistral: signatures rewritten before the last user's message, calls and results as JSON with ids.
    "marks": """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr('role', 'equalto', 'user') | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == 'tool' or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message['role'] == 'user') != (ns.index % 2 == 0) %}
            {{- raise_exception('user and assistant must alternate') }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- '[AVAILABLE_TOOLS] [' }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{\"type\": \"function\", \"function\": {' }}
                {%- for key, val in tool.items() if key != 'return' %}
                    {%- if val is string %}
                        {{- '\"' + key + '\": \"' + val + '\"' }}
                    {%- else %}
                        {{- '\"' + key + '\": ' + val | tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ', ' }}
                    {%- endif %}
                {%- endfor %}
                {{- '}}' }}
                {%- if not loop.last %}
                    {{- ', ' }}
                {%- else %}
                    {{- ']' }}
                {%- endif %}
            {%- endfor %}
            {{- '[/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST] ' + message['content'] + '[/INST]' }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- '[TOOL_CALLS] [' }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id | length != 9 %}
                {{- raise_exception('The id of a call has nine characters.') }}
            {%- endif %}
            {{- ', \"id\": \"' + tool_call.id + '\"}' }}
            {%- if not loop.last %}
                {{- ', ' }}
            {%- else %}
                {{- ']' + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] | trim + eos_token }}
    {%- elif message['role'] == 'tool' %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {\"content\": ' + content | string + ', \"call_id\": \"' + message.tool_call_id + '\"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
""",
    # gpt-oss: macros, one of which calls itself; types as TypeScript; the name of a call is kept for its result.
    "harmony": """{%- macro type_of(spec) -%}
    {%- if spec.type == 'array' and spec['items'] -%}
        {{- type_of(spec['items']) + '[]' -}}
    {%- elif spec.type in ('integer', 'number') -%}
        {{- 'number' -}}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum | join('" | "') + '"' -}}
    {%- else -%}
        {{- spec.type or 'any' -}}
    {%- endif -%}
{%- endmacro -%}

{%- macro signatures(space, tools) -%}
    {{- 'namespace ' + space + ' {\n' }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- '// ' + tool.description | default('-') + '\ntype ' + tool.name + ' = ' }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- '(_: {\n' }}
            {%- for name, spec in tool.parameters.properties.items() %}
                {{- name }}
                {%- if name not in (tool.parameters.required or []) -%}
                    {{- '?' }}
                {%- endif -%}
                {{- ': ' }}
                {{- type_of(spec) }}
                {%- if spec.default is defined -%}
                    {{- ' // default: ' + spec.default | tojson }}
                {%- endif -%}
                {{- ',\n' }}
            {%- endfor %}
            {{- '}) => any;\n' }}
        {%- else -%}
            {{- '() => any;\n' }}
        {%- endif -%}
    {%- endfor %}
    {{- '} // namespace ' + space }}
{%- endmacro -%}

{%- macro preamble() -%}
    {%- if identity is not defined %}
        {%- set identity = 'You are a model.' %}
    {%- endif %}
    {{- identity + '\nToday: ' + strftime_now('%Y-%m-%d') + '\n' }}
    {%- if effort is not defined %}
        {%- set effort = 'medium' %}
    {%- endif %}
    {{- 'Effort: ' + effort }}
{%- endmacro -%}

{{- '<|start|>system<|message|>' }}
{{- preamble() }}
{{- '<|end|>' }}
{%- if messages[0].role == 'developer' or messages[0].role == 'system' %}
    {%- set instructions = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set instructions = '' %}
    {%- set rest = messages %}
{%- endif %}
{%- if instructions or tools %}
    {{- '<|start|>developer<|message|>' + instructions }}
    {%- if tools -%}
        {{- '\n' + signatures('functions', tools) }}
    {%- endif -%}
    {{- '<|end|>' }}
{%- endif %}
{%- set called = namespace(name=none) %}
{%- for message in rest -%}
    {%- if message.role == 'assistant' -%}
        {%- if 'tool_calls' in message %}
            {%- set answered = namespace(is=false) %}
            {%- for later in rest[loop.index:] %}
                {%- if later.role == 'assistant' and 'tool_calls' not in later %}
                    {%- set answered.is = true %}
                {%- endif %}
            {%- endfor %}
            {%- set call = message.tool_calls[0] %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {%- if message.content and not answered.is %}
                {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.content + '<|end|>' }}
            {%- endif %}
            {{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary ' }}
            {{- (call.content_type if call.content_type is defined else 'json') + '<|message|>' }}
            {{- call.arguments | tojson + '<|call|>' }}
            {%- set called.name = call.name %}
        {%- else %}
            {{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}
            {%- set called.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if called.name is none %}
            {{- raise_exception('A result without a call.') }}
        {%- endif %}
        {{- '<|start|>functions.' + called.name + ' to=assistant<|message|>' + message.content | tojson + '<|end|>' }}
    {%- elif message.role == 'user' -%}
        {{- '<|start|>user<|message|>' + message.content + '<|end|>' }}
    {%- endif -%}
{%- endfor -%}

{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}""",
    # What a template can see of messages and tools at all.
    "seen": """{% for message in messages %}
{{ loop.index }} {{ message.keys() | list }} {{ message.content is none }} {{ message.content is defined }} {{ message.name | default('-') }}
{% for call in message.tool_calls or [] %}
{{ call.function.name }}({% for key, value in call.function.arguments.items() %}{{ key }}={{ value }}{{ ', ' if not loop.last }}{% endfor %})
{{ call.function.arguments is mapping }} {{ call }} {{ call.function.arguments | tojson(sort_keys=true) }}
{% endfor %}
{% endfor %}
{{ tools is none }} {{ tools }} {{ tools | tojson(separators=(',', ':')) }} {{ messages | tojson(indent=2) }}
{% for tool in tools or [] %}
{{ tool['function']['name'] }}: {{ tool.function.parameters.properties | items | map('first') | join(' ') }} {{ tool.function.get('strict', 'lax') }}
{% endfor %}""",
}
CONVERSATIONS = [
    [{"role": "user", "content": "Hello there"}],
    [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Why is it \"so\"?\nTell me."},
        {"role": "assistant", "content": " It's so — because. "},
        {"role": "user", "content": "and <b> then"},
    ],
    [{"role": "assistant", "content": "I begin"}, {"role": "user", "content": "no"}],
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place <now>, or \"later\" – it's free.",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "Where,\nin words"},
                    "days": {"type": "integer", "minimum": 0, "maximum": 14, "default": None},
                    "accuracy": {"type": "number", "exclusiveMinimum": 1e-05, "maximum": 1.0, "multipleOf": 0.25},
                    "units": {"enum": ["°C", "°F"], "default": "°C"},
                    "nested": {"type": "array", "items": {}, "examples": [[], [1, [2e16]], {"z": True, "a": False}]},
                },
                "required": ["place"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
CALL = {
    "id": "call12345",
    "type": "function",
    "function": {"name": "weather", "arguments": {"place": "Zürich \"HB\"", "days": 2, "accuracy": 0.5, "also": [None, True]}},
}
OTHER_CALL = {"id": "call12346", "type": "function", "function": {"name": "now", "arguments": {}}}
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "weather", "content": "{\"rain\": \"<b>no</b>\"}"}
TOOL_CONVERSATIONS = [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Will it rain? "}],
    [
        {"role": "user", "content": "Will it rain?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        RESULT,
    ],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Will it rain?"},
        {"role": "assistant", "content": "I look it up.", "tool_calls": [CALL, OTHER_CALL]},
        RESULT,
        {"role": "tool", "tool_call_id": "call12346", "content": "noon"},
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "Thanks."},
    ],
    [{"tool_calls": [{"name": "now", "arguments": {}, "function": {"name": "now", "arguments": {"b": 1, "a": 2}}}], "role": "assistant"}],
]
NOW = datetime.datetime(2026, 11, 23, 12, 0, 0)


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat.datetime = Fixed

cases = []


def add(name, template, messages, tools, variables=None):
    case = {"name": name, "template": template, "messages": messages}
    if tools is not None:
        case["tools"] = tools
    if variables:
        case["chat_template_kwargs"] = variables
    try:
        case["expected"] = chat._compile_jinja_template(template).render(
            messages=messages, tools=tools, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>",
            **(variables or {}),
        )
    except Exception as error:
        case["refused"] = str(error)
    cases.append(case)


for name, template in TEMPLATES.items():
    for messages in CONVERSATIONS:
        add(name, template, messages, None)
for name, template in TOOL_TEMPLATES.items():
    for messages in TOOL_CONVERSATIONS:
        for tools in (None, TOOLS):
            add(name, template, messages, tools)
# Variables that a request sets are seen inside macros.
add("harmony", TOOL_TEMPLATES["harmony"], CONVERSATIONS[0], None, {"effort": "high", "identity": "You are another."})
path = pathlib.Path(__file__).parent / "chat.json"
seconds = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
path.write_text(f'{{"now": {seconds}, "cases": [\n{lines}\n]}}\n')
print(len(cases), "cases")
