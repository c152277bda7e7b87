package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// renderMarkdown writes a report for a pull request or a wiki.
func renderMarkdown(w io.Writer, k Kind, f record.Findings, _ Options) error {
	return drawMarkdown(w, k.page(f))
}

// drawMarkdown writes a page for a pull request or a wiki.
func drawMarkdown(w io.Writer, d Page) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", markdown(d.Title))
	if d.Question != "" {
		fmt.Fprintf(&b, "%s\n\n", markdown(d.Question))
	}
	for i, answer := range d.Answers {
		if i == 0 {
			fmt.Fprintf(&b, "**%s**\n", markdown(answer))
		} else {
			fmt.Fprintf(&b, "%s\n", markdown(answer))
		}
	}
	b.WriteByte('\n')
	for _, fact := range d.Facts {
		fmt.Fprintf(&b, "- %s: %s\n", markdown(fact.Name), markdown(fact.Text))
	}
	for _, s := range d.Sections {
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "\n## %s\n\n", markdown(t.Title))
			markdownTable(&b, t)
			for _, note := range t.Notes {
				fmt.Fprintf(&b, "\n%s\n", markdown(note))
			}
			for _, text := range t.Texts {
				fmt.Fprintf(&b, "\n%s:\n\n", markdown(text.Name))
				markdownFenced(&b, text.Text)
			}
		}
	}
	for i, p := range paragraphs(d.Story) {
		if i == 0 {
			fmt.Fprintf(&b, "\n## %s\n", aboutStudy)
		}
		fmt.Fprintf(&b, "\n%s\n", markdown(p))
	}
	for i, warning := range d.Warnings {
		if i == 0 {
			b.WriteString("\n## Warnings\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", markdown(warning))
	}
	if strings.TrimRight(d.Study, "\n") != "" {
		b.WriteString("\n## Resolved study, with all defaults\n\n")
		markdownFenced(&b, d.Study)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownFenced writes YAML verbatim.
func markdownFenced(b *strings.Builder, text string) {
	text = strings.TrimRight(cleanLines(text), "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(b, "%syaml\n%s\n%s\n", fence, text, fence)
}

func markdownTable(b *strings.Builder, t Table) {
	var head, rule []string
	for _, c := range t.Columns {
		head = append(head, markdown(c.Head))
		if c.Right {
			rule = append(rule, "---:")
		} else {
			rule = append(rule, "---")
		}
	}
	fmt.Fprintf(b, "| %s |\n| %s |\n", strings.Join(head, " | "), strings.Join(rule, " | "))
	for _, row := range t.Rows {
		cells := make([]string, len(t.Columns))
		for i := range cells {
			if i < len(row) {
				cells[i] = markdown(row[i].S)
			}
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}
