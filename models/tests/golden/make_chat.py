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
NOW = datetime.datetime(2026, 11, 23, 12, 0, 0)


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat.datetime = Fixed

cases = []
for name, template in TEMPLATES.items():
    compiled = chat._compile_jinja_template(template)
    for messages in CONVERSATIONS:
        case = {"name": name, "template": template, "messages": messages}
        try:
            case["expected"] = compiled.render(
                messages=messages, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
            )
        except Exception as error:
            case["refused"] = str(error)
        cases.append(case)
path = pathlib.Path(__file__).parent / "chat.json"
seconds = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
path.write_text(json.dumps({"now": seconds, "cases": cases}, indent=1, ensure_ascii=False) + "\n")
print(len(cases), "cases")
