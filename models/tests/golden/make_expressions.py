"""Expressions of chat templates as Jinja 3.1 in transformers' sandbox evaluates them: writes expressions.json.

usage: pip install jinja2 && python3 make_expressions.py
"""
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {
    "s": "one two", "l": ["x", "y"], "m": {"a": "b", "n": None, "k": [1, 2.5, True]}, "i": 7, "f": 0.5, "t": True,
    "none": None, "e": "", "q": "it's", "u": "naïve Straße",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "text", "text": "Yo"}]}],
}

EXPRESSIONS = r"""
'' ~ ['x', 'y']
l ~ ''
'a' ~ l ~ 'b'
'a' ~ 1 + 2
'a' ~ 2 * 3 ~ 'b'
1 ~ 2
t ~ f ~ none
'a' ~ m
'a' ~ m.k
'a' ~ l[0] | upper ~ 'b'
('a' ~ l) | length
'a' ~ (l ~ 'b')
'~' ~ "~" ~ l
'a' ~ l if t else 'b' ~ m
'a' ~ l == "a['x', 'y']"
'a' ~ -1
'a' ~ missing
'a' ~ l is string
[1 ~ l, 'c' ~ m.k]
{'a': 'b' ~ l}
l | string
m | string
m.k | string
none | string
t | string
f | string
1.0 | string
'x' | string
(1, 2) | string
(1,) | string
() | string
[] | string
{} | string
[[1], {'a': none}] | string
('%s' | format(l))
('%s and %s' | format('a', l))
('%d' | format(7))
('%03d' | format(7))
('%.2f' | format(0.5))
('%5s|' | format('a'))
('%-5s|' | format('a'))
('%s' | format(none))
('%s' | format(t))
('%(a)s' | format(a=l))
'%s' % 'a'
'%s' % l
'%s-%s' % ('a', 'b')
'%s' % ('a',)
'%d%%' % 5
'%s' % 1.0
'%.1f' % 2.55
'%5d|' % 42
'%x' % 255
'%r' % 'a'
7 % 3
-7 % 3
i % 2 == 0
'a' if 7 % 2 else 'b'
'{}'.format(l)
'{} {}'.format('a', m)
'{0}{1}{0}'.format('a', 'b')
'{a}'.format(a=l)
'{:>5}'.format('a')
'{:<5}|'.format('a')
'{:^5}|'.format('a')
'{:03d}'.format(7)
'{:.2f}'.format(0.5)
'{:,}'.format(1234567)
'{{}}'.format()
'{!r}'.format('a')
l | join
l | join(', ')
[l, m] | join(' ')
[1, 2.0, none, true] | join('|')
m | join(',')
messages | join('-', attribute='role')
', '.join(l)
', '.join(m)
'-'.join('abc')
s.upper()
s.lower()
s.title()
s.capitalize()
'Ab'.swapcase()
u.casefold()
s.split()
s.split(' ')
s.split(' ', 1)
' a  b '.split()
' a  b '.split(' ')
'a,b,c'.split(',', 1)[1]
'a-b-c'.split('-')[-1]
'a-b-c'.rsplit('-', 1)
'a-b-c'.rsplit('-', 1)[1]
'a-b-c'.rsplit('-')
' a b  c '.rsplit()
' a b  c '.rsplit(none, 1)
' a b  c '.split(none, 1)
'a-b-c'.rsplit('x')
'a=b=c'.partition('=')
'a=b'.partition('=')[2]
'a'.partition('=')
'a=b=c'.rpartition('=')
'a'.rpartition('=')
'xa'.removeprefix('x')
'ax'.removesuffix('x')
'xa'.removeprefix('y')
'ax'.removesuffix('')
'abc'.index('b')
'abc'[('abc'.index('b')):]
'abcb'.rindex('b')
'abc'.index('z')
'abc'.find('z')
'abc'.find('b')
'abcb'.find('b', 2)
'abcb'.rfind('b')
'naïve'.find('v')
'naïve'.index('v')
'naïve'.rfind('e')
'a'.ljust(3)
'a'.ljust(3) ~ '|'
'a'.rjust(3)
'a'.center(4) ~ '|'
'a'.center(5, '*')
'ab'.center(5, '*')
'a'.ljust(3, '.')
'7'.zfill(3)
'-7'.zfill(4)
'a\tb'.expandtabs(4)
'abc'.startswith('a')
'abc'.startswith(('x', 'a'))
'abc'.startswith('b', 1)
'abc'.endswith(('x', 'c'))
'abc'.endswith('c')
'abcabc'.count('b')
'aaa'.replace('a', 'b')
'aaa'.replace('a', 'b', 2)
'  a '.strip() ~ '|'
'  a '.lstrip() ~ '|'
'  a '.rstrip() ~ '|'
'xxaxx'.strip('x')
'a\nb\r\nc'.splitlines()
'a\nb\n'.splitlines(true)
''.splitlines()
'abc'.isalpha()
''.isalpha()
''.isdigit()
''.isspace()
''.isupper()
''.islower()
''.isalnum()
'12'.isdigit()
'1a'.isalnum()
'12'.isdecimal()
'½'.isnumeric()
'½'.isdigit()
'A1'.isupper()
'a1'.islower()
'A b'.islower()
'Ab Cd'.istitle()
'ab_1'.isidentifier()
'1a'.isidentifier()
'abc'.isascii()
'é'.isascii()
'a\n'.isprintable()
'ab'.encode()
l.index('y')
l.index('z')
l.count('x')
(1, 2, 1).count(1)
(1, 2, 1).index(2)
l.append('z')
m.get('a')
m.get('z')
m.get('z', 'd')
m.keys() | list
m.values() | list
m.items() | list
m.keys()
m.items()
m.copy()
m.update({'a': 1})
m | items | list
m | dictsort
m | length
l | first
l | last
l | reverse | list
s | reverse
l + ['z']
l * 2
'ab' * 3
'ab' + 'c'
[1, 2] + [3]
(1, 2) + (3,)
1 / 2
4 / 2
7 // 2
7.0 // 2
2 ** 3
2 ** -1
1e3
1.5
10000000000000000.0
0.1 + 0.2
-1.5 | abs
3 | float
'3' | int
'x' | int
'3.7' | float
2.5 | round
2.567 | round(2)
2.5 | int
l[0]
l[-1]
l[1:]
l[::-1]
s[::-1]
s[:3]
s[-3:]
s[0]
'naïve'[2]
'naïve'[2:4]
m['a']
m.a
m['z']
m.z
l[5]
messages[0].role
messages[-1]['content'][0].text
messages[1]
messages[0]
messages | map(attribute='role') | list
messages | selectattr('role', 'equalto', 'user') | list | length
messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | join
l | map('upper') | list
l | select('equalto', 'x') | list
l | reject('equalto', 'x') | list
[3, 1, 2] | sort
['b', 'A'] | sort
[3, 1, 2] | sort(reverse=true)
[1, 1, 2] | unique | list
[1, 2, 3] | sum
[1, 2, 3] | min
[1, 2, 3] | max
[1, 2, 3, 4] | batch(2) | list
'abc' | list
'abc' | length
'a b' | wordcount
'abc' | upper
'aBC' | capitalize
'a b' | title
' a ' | trim ~ '|'
'xax' | trim('x')
'abc' | replace('b', 'x')
'a' | default('b')
missing | default('b')
none | default('b')
none | default('b', true)
'' | default('b', true)
'<a>' | e
'<a>' | escape
'<a>' | safe
'a\nb' | indent(2)
'a\nb' | indent(2, true)
'abc' | truncate(2)
'abcdefghij' | truncate(6, true)
'a/b' | urlencode
l | tojson
m | tojson
m | tojson(indent=2)
q | tojson
u | tojson
'<>&' | tojson
1.0 | tojson
none | tojson
t | tojson
{'b': 1, 'a': 2} | tojson
{'b': 1, 'a': 2} | tojson(sort_keys=true)
l is string
s is string
m is mapping
l is mapping
l is sequence
s is sequence
m is sequence
l is iterable
s is iterable
1 is number
true is number
1 is integer
1.0 is integer
1.0 is float
true is boolean
none is none
missing is defined
missing is undefined
s is defined
2 is even
3 is odd
4 is divisibleby 2
'a' is in l
'x' is in l
'x' in l
'z' not in l
'a' in m
'ne' in s
1 in [1.0]
'ab' is lower
'AB' is upper
1 is eq 1
1 is sameas 1
l is filter
true and 'a'
'' or 'b'
not l
not []
1 < 2 < 3
'a' < 'b'
[1, 2] == [1, 2]
{'a': 1} == {'a': 1}
1 == 1.0
true == 1
none == false
'a' != 'b'
i if i > 5
i if i > 9
(i if i > 9) ~ 'x'
range(3) | list
range(3)
range(1, 6, 2) | list
dict(a=1)
dict(a=1)['a']
namespace(a=1).a
cycler('a', 'b').next()
joiner(',')()
lipsum is defined
l | length > 1
l | length ~ 'x'
"a" "b"
'it\'s'
'\x41\u00e9'
['a"b', "c'd", 'e\'f"g']
['\n\t\\\x00\x7f']
['é', '​', '🦙']
[1.0, 1e16, 1e-5, 123456789.123]
[(1, 2), (3,)]
{1: 'a', 'b': (1,)}
{'a': true, 'b': none}
true
none
missing
[missing]
-i
+i
-f
i.real
s.missing
s.nomethod()
m.nomethod()
nofunction()
s | nofilter
s is notest
none.a
none['a']
1 + 'a'
'a' + 1
missing.a
""".strip().splitlines()


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    made.filters["tojson"] = tojson
    return made


def main():
    made, cases = environment(), []
    for expression in EXPRESSIONS:
        try:
            expected = made.from_string("{{ " + expression + " }}").render(**CONTEXT)
        except Exception:  # whatever Python raises, the template refuses the conversation
            expected = None
        if expected is None or " at 0x" not in expected:
            cases.append([expression, expected])
    path = pathlib.Path(__file__).with_name("expressions.json")
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text('{"context": ' + json.dumps(CONTEXT, ensure_ascii=False) + ',\n"cases": [\n' + lines + "\n]}\n")


main()
