"""XML is read by its tags as it is read row by row: the same rows, the same errors."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.autoloader.fast_reading import LAW, PLANS, rows_or_error

from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import MalformedRecord, ReadPlan, UnknownFields
from headrace.autoloader.reading.rows import Rows
from headrace.autoloader.reading.xml.rows import XmlReader, XmlRows
from headrace.autoloader.reading.xml.texts import rows_between
from headrace.model.ddl import parse_struct

PATH = "/in/a"

INNER = st.recursive(
    st.sampled_from(
        [
            *(
                "",
                "1",
                "x",
                " y ",
                "\n",
                "&amp;lt;",
                "&#65;",
                "&nbsp;",
                "&",
                "]]>",
                "a > b",
                "a < b",
                "don't",
                '"q"',
                "é",
                "\xa0z",
            ),
            *(
                "<!-- c -->",
                "<!-- <r> -->",
                "<![CDATA[x]]>",
                "<![CDATA[<r>]]>",
                "<?pi x?>",
                "<!DOCTYPE r>",
                "\r\n",
                "\x01",
                "true",
            ),
            *(
                "2024-01-02",
                "02/01/2024",
                "NA",
                "<r/>",
                "</r>",
                "<a",
                "</a>",
                "<a b='1'/>",
                '<a b = "1"/>',
                "<a\nb='1'>",
            ),
        ]
    ),
    lambda inner: st.builds(
        lambda name, attributes, inside, end: (
            f"<{name}{''.join(attributes)}>{''.join(inside)}</{end or name}>"
            if inside is not None
            else f"<{name}{''.join(attributes)}/>"
        ),
        st.sampled_from(["a", "b", "c", "d", "s", "A", "more", "n:a", "1a", "a ", "é"]),
        st.lists(
            st.sampled_from(
                [
                    *(
                        ' k="1"',
                        ' k="x"',
                        ' m="&quot;"',
                        ' k="a>b"',
                        " k='1'",
                        ' k=""',
                        '  k="1"',
                        ' k ="1"',
                        ' k="1" ',
                        ' K="1"',
                    ),
                    *(' k="a\nb"', " k", " k=1", ' n:k="1"', ' k="don\'t"', '\tk="1"'),
                ]
            ),
            max_size=2,
        ),
        st.none() | st.lists(inner, max_size=3),
        st.sampled_from(["", "", "", "", "", "", "b", "a "]),
    ),
    max_leaves=5,
)
PLAIN_TEXTS = st.sampled_from(
    [
        "",
        "1",
        "x",
        " y ",
        "\n",
        "&amp;lt;",
        "&#65;",
        "don't",
        '"q"',
        "é",
        "\xa0z",
        "true",
        "0",
        "2024-01-02",
        "02/01/2024",
        "NA",
    ]
)
PLAIN_ATTRIBUTES = st.sampled_from(["", "", ' k="1"', ' k="x"', ' k="&lt;"', ' m="1"', ' k="1" m="2"', ' k=""'])
PLAIN = st.recursive(
    st.builds(
        lambda name, attributes, text: f"<{name}{attributes}>{text}</{name}>",
        st.sampled_from("abcds"),
        PLAIN_ATTRIBUTES,
        PLAIN_TEXTS,
    ),
    lambda inner: st.builds(
        lambda name, attributes, inside, space: f"<{name}{attributes}>{space.join(['', *inside, ''])}</{name}>",
        st.sampled_from(["a", "b", "c", "d", "s"]),
        PLAIN_ATTRIBUTES,
        st.lists(inner, max_size=3),
        st.sampled_from(["", "", "\n ", "x"]),
    ),
    max_leaves=4,
)
PLAIN_ROWS = st.builds(
    lambda attributes, inside: f"<r{attributes}>{''.join(inside)}</r>", PLAIN_ATTRIBUTES, st.lists(PLAIN, max_size=4)
)
ODD_ROWS = st.builds(
    lambda attribute, inside, end: f"<r{attribute}>{''.join(inside)}{end}",
    st.sampled_from(["", "", ' k="1"', " k='1'", ' k="', ' k="/>"', " ", "/"]),
    st.lists(INNER, max_size=4),
    st.sampled_from(["</r>", "</r>", "</r>", "</r >", "", "</r></r>", "</R>"]),
)
BETWEEN = st.sampled_from(
    ["\n", "", "x", "<!-- c -->", "<!-- <r> -->", "</x>", "<x>", "<rs>", "<?xml version='1.0'?>", "<!", ">", "\ufeff"]
)
XML_KINDS = [
    *("STRING", "INT", "DOUBLE", "BOOLEAN", "DATE", "STRUCT<a: STRING, _k: INT>", "STRUCT<_VALUE: STRING, _k: STRING>"),
    *("ARRAY<STRING>", "ARRAY<STRUCT<a: INT, b: ARRAY<STRING>>>", "MAP<STRING,STRING>", "STRUCT<c: STRUCT<a: DATE>>"),
]
XML_OPTIONS = st.sampled_from(
    [
        {},
        {},
        {"nullValue": "NA"},
        {"excludeAttribute": "true"},
        {"ignoreSurroundingSpaces": "false"},
        {"ignoreNamespace": "true"},
        {"dateFormat": "dd/MM/yyyy"},
        {"attributePrefix": ""},
        {"valueTag": "a"},
        {"headrace.maxRecordBytes": "40"},
    ]
)


@LAW
@given(
    pieces=st.one_of(
        st.lists(PLAIN_ROWS, min_size=1, max_size=6), st.lists(st.one_of(PLAIN_ROWS, ODD_ROWS, BETWEEN), max_size=8)
    ),
    kinds=st.lists(st.sampled_from(XML_KINDS), min_size=4, max_size=4),
    changes=PLANS,
    options=XML_OPTIONS,
    step=st.sampled_from([7, 40, 1000]),
    piece=st.sampled_from([1, 30, 1000]),
)
# An end with a space, and a stray one that makes up for it.
@example(["<r></r >", "<r/></r>"], ["STRING"] * 4, {}, {}, 1000, 30)
def test_xml_is_read_by_its_tags_as_it_is_read_row_by_row(pieces, kinds, changes, options, step, piece):
    columns = ", ".join(f"{name} {kind}" for name, kind in zip("abcd", kinds, strict=True))
    columns += ", _k INT, s STRUCT<a: STRING>, `n:a` STRING" + (
        ", _corrupt_record STRING" if "corrupt_column" in changes else ""
    )
    plan = ReadPlan("xml", parse_struct(columns), "/in", format_options={"rowTag": "r", **options}, **changes)
    text = "".join(pieces)
    if "headrace.maxRecordBytes" in options:
        # How much is reported of a long row depends on the pieces.
        step = piece = 1000

    def by_tags():
        reader = XmlReader(plan, PATH, piece=piece)
        for begin in range(0, len(text), step):
            yield from reader.read(text[begin : begin + step])
        yield from reader.end()

    def row_by_row():
        found, rows = XmlRows(plan, PATH), Rows(plan, PATH)
        for one in rows_between([text], "r", plan.limits.record_bytes):
            if isinstance(one, str):
                found.add(one, rows)
            else:
                rows.add_too_long(one)
        found.raise_unknown_fields()
        yield rows.take()

    by_tags_found, singly_found = (
        rows_or_error(batches()) if not _fails(batches) else "corrupt" for batches in (by_tags, row_by_row)
    )
    if isinstance(singly_found, tuple) and singly_found[0] == "unknown":
        # A batch ends at the first piece with unknown fields.
        assert set(by_tags_found[1]) <= set(singly_found[1])
    else:
        assert by_tags_found == singly_found


def _fails(batches):
    try:
        list(batches())
    except CorruptFile:
        return True
    except (UnknownFields, MalformedRecord):
        return False
    return False
