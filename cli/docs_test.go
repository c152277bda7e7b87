package cli

import (
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"

	"github.com/spf13/cobra"
)

var (
	reCommand = regexp.MustCompile(`(?m)^ {4,}(?:eval "\$\()?(?:bin/)?meshtrial ([^#\n")]*)|` + "`(?:bin/)?meshtrial ([a-z][^`]*)`")
	reYAML    = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	reLink    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^):]+))?\)`)
	reHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	reNoSlug  = regexp.MustCompile(`[^\pL\pN _-]`)
)

// documents are what people read first.
var documents = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/method.md", "docs/study.md", "docs/xds.md", "docs/advice.md", "docs/assess.md", "docs/load.md", "docs/scenarios.md", "docs/lab.md",
	"docs/bill.md", "docs/capacity.md", "docs/cluster.md", "docs/detached.md", "docs/extending.md", "docs/filters.md", "docs/mesh.md", "docs/page.md", "docs/profile.md", "docs/scale.md", "docs/tuning.md", "docs/worker.md"}

// TestDocuments: the commands, studies, files and headings that the documents name are
// there.
func TestDocuments(t *testing.T) {
	commands, files := 0, 0
	for _, name := range documents {
		data, err := os.ReadFile("../" + name)
		must.OK(t, err)
		text := string(data)
		for _, m := range reCommand.FindAllStringSubmatch(text, -1) {
			commands++
			isCommand(t, name, m[1]+m[2])
		}
		for _, m := range reYAML.FindAllStringSubmatch(text, -1) {
			// A part of a study stands for one with a name and a question.
			text := m[1]
			if strings.HasPrefix(text, "apiVersion:") { // a manifest
				if _, err := lab.ParseObjects([]byte(text)); err != nil {
					t.Errorf("%s: a manifest in it: %v", name, err)
				}
				continue
			}
			if !strings.HasPrefix(text, "name:") {
				text = "name: part\nquestion: What is it?\n" + text
			}
			s, err := study.Parse([]byte(text), name, nil)
			if err == nil {
				_, err = study.NewPlan(s, 1)
			}
			if err == nil {
				err = analyses.All().CheckStudy(s)
			}
			if err != nil {
				t.Errorf("%s: a study in it: %v", name, err)
			}
		}
		for _, m := range reLink.FindAllStringSubmatch(text, -1) {
			files++
			target := path.Join("..", path.Dir(name), m[1])
			if m[1] == "" { // a heading of this document
				target = "../" + name
			}
			linked, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: link: %v", name, err)
			} else if m[2] != "" && !slices.Contains(anchors(string(linked)), m[2]) {
				t.Errorf("%s: link: %s has no heading #%s", name, target, m[2])
			}
		}
	}
	if commands < 15 || files < 50 {
		t.Errorf("%d commands and %d links found: the patterns no longer fit", commands, files)
	}
}

// anchors are the headings of a document as links name them.
func anchors(text string) []string {
	var all []string
	for _, m := range reHeading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(reNoSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// isCommand wants a line of a text, without the program's name, to be a command with flags
// that it has.
func isCommand(t *testing.T, where, line string) {
	t.Helper()
	args := strings.Fields(strings.ReplaceAll(line, "'", ""))
	if i := slices.IndexFunc(args, func(word string) bool { return slices.Contains([]string{">", "|", "&&"}, word) }); i >= 0 {
		args = args[:i]
	}
	root := newRootCommand(&Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	cmd, rest, err := root.Find(args)
	switch {
	case err != nil:
		t.Errorf("%s: meshtrial %s: %v", where, strings.Join(args, " "), err)
	case cmd == root && !strings.HasPrefix(args[0], "-"):
		t.Errorf("%s: meshtrial %s: there is no such command", where, args[0])
	default:
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: meshtrial %s: %v", where, strings.Join(args, " "), err)
		}
	}
}

// TestExamples: the examples of all help texts are commands.
func TestExamples(t *testing.T) {
	n := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, " #")
			line, ok := strings.CutPrefix(line, "  meshtrial ")
			if !ok {
				t.Errorf("%s: the example %q does not begin with the program's name, two columns in", cmd.CommandPath(), line)
				continue
			}
			n++
			isCommand(t, cmd.CommandPath(), line)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand(&Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}))
	if n < 30 {
		t.Errorf("%d examples were found", n)
	}
}

// TestDocumentsNameAllSteps: scenarios are written by what their document says,
// which has a row for every kind of step.
func TestDocumentsNameAllSteps(t *testing.T) {
	data, err := os.ReadFile("../docs/scenarios.md")
	must.OK(t, err)
	_, rest, ok := strings.Cut(string(data), "\n## Steps\n")
	steps, _, end := strings.Cut(rest, "\n## ")
	if !ok || !end {
		t.Fatal("docs/scenarios.md has no section on steps")
	}
	for _, kind := range fault.KindNames() {
		if !regexp.MustCompile("(?m)^\\|[^|]*`" + kind + "`").MatchString(steps) {
			t.Errorf("docs/scenarios.md says nothing of the step %s", kind)
		}
	}
}
