package study

import (
	"fmt"
	"strings"
)

// Reference returns the documentation of study files in Markdown, made from
// the same tables as the parser: docs/study.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("## Fields\n\n")
	s := defaults()
	writeFields(&b, root(s), "")
	b.WriteString("\n## Factors\n\n| factor | what it is | levels | default |\n|---|---|---|---|\n")
	for _, f := range factors {
		levels := strings.Join(f.Levels, ", ")
		if f.Levels == nil {
			levels = "as " + strings.Join(f.Examples, ", ")
		}
		if f.Unit != "" {
			levels += " (" + f.Unit + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Doc, levels, f.Default)
	}
	b.WriteString(referenceTail)
	for _, name := range FindingNames() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, FindingUnit(name))
	}
	return b.String()
}

// writeFields lists the fields of an object and of those below it.
func writeFields(b *strings.Builder, o object, prefix string) {
	if prefix == "" {
		b.WriteString("| field | what it means | default |\n|---|---|---|\n")
	}
	for _, f := range o.fields {
		def := ""
		switch v := f.value.(type) {
		case object, factorsValue, cellValue:
		case stopValue:
			def = "none"
		default:
			if n := v.encode(); n != nil && n.kind == scalar {
				def = n.text
			}
		}
		if f.required {
			def = "required"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, f.name, f.doc, def)
		switch v := f.value.(type) {
		case object:
			writeFields(b, v, prefix+f.name+".")
		case stopValue:
			writeFields(b, v.object(&Stop{}), prefix+f.name+".")
		case listValue[Published]:
			if inner, ok := v.element(&Published{}).(object); ok {
				writeFields(b, inner, prefix+f.name+"[].")
			}
		}
	}
}

const referenceHead = `# Study files

<!-- Made from the program's own tables: go test ./study -run Reference -update -->

A study is a YAML file that asks one question: what varies, what each
combination is compared with, and how long to measure. This one asks for a
sidecar's cost at two rates:

    # yaml-language-server: $schema=study.schema.json
    name: my-study
    question: What does a sidecar cost at two rates?
    settings: {connections: 16, payload: 4KiB}
    factors:
      rate: [500, 2000]
      sidecars: [none, both]
    baseline: {sidecars: none}
    window: 2s
    blocks: {min: 4, max: 12, limit: 5m}
    stop: {finding: latency_p50_overhead, half_width: 7.5%, of: {sidecars: both}}

` + "`meshmark study schema > study.schema.json`" + ` gives editors what they need to
complete and check it; ` + "`meshmark study check FILE`" + ` says what is wrong and where;
` + "`meshmark study plan FILE`" + ` prints the cells, what each is compared with, and
the time it takes. ` + "`meshmark study show quick --source`" + ` prints a shipped study as
a start for one's own.

Every combination of levels is a cell. A block is one pass over all cells in
random order, in which the cells that others are compared with run twice: what
those two turns differ by is the noise floor. The same seed gives the same
order.

Times, sizes and percentages carry their unit (` + "`250ms`, `1KiB`, `7.5%`" + `). A
fault is reported with its place; nothing is started. ` + "`--set path=value`" + ` overrides
a part of the file: ` + "`--set window=1s`, `--set blocks.max=6`" + `; a factor goes by its
name alone, fixed by a level (` + "`--set rate=2000`" + `) or varied by a list
(` + "`--set connections=[8,16]`" + `), whichever it was before.

`

const referenceTail = `
What means nothing in a cell is recorded as ` + "`-`" + `, and cells that differ only in
that are one cell, measured once: the proxies' settings where no pod has a
sidecar, ` + "`mtls`" + ` where the server has none, ` + "`arrival`" + ` at rate ` + "`max`" + `. Strict mutual
TLS cannot serve a client without a sidecar: such a cell (` + "`sidecars: server`" + `) is
recorded as the ` + "`permissive`" + ` that it is, and refused if ` + "`mtls`" + ` is itself varied.

## Findings

Names for ` + "`stop`, `published` and `assert`" + `:

| finding | unit |
|---|---|
`
