package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/spf13/cobra"
)

const componentsSchema = "meshtrial/components/v1"

func newComponentsCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "components",
		Short: "List and build the programs and images of a local lab",
		Long: "A local lab's programs come from three pinned sources: Go modules, which are built\n" +
			"here, Envoy's wheel, and Debian packages. Images are assembled from them. They are\n" +
			"built once and cached ($MESHTRIAL_CACHE, or meshtrial in the user's cache folder);\n" +
			"`meshtrial lab up` builds what is missing.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newComponentsList(env), newComponentsBuild(env), newComponentsImages(env))
	return cmd
}

func newComponentsList(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List every component with its pinned version, source and digest",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := components.New(components.Options{})
			if err != nil {
				return err
			}
			status, err := b.Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(env.Stdout, struct {
					Schema     string              `json:"schema"`
					Cache      string              `json:"cache"`
					Components []components.Status `json:"components"`
				}{componentsSchema, b.CacheDir(), status})
			}
			w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tVERSION\tFROM\tDIGEST\tCACHED\tFOR")
			for _, s := range status {
				cached := "no"
				switch {
				case s.Cached:
					cached = "yes"
				case s.Optional:
					cached = "optional"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Version, s.Source, shorten(s.Digest), cached, s.Purpose)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with whole digests")
	return cmd
}

func newComponentsBuild(env *Env) *cobra.Command {
	var asJSON bool
	var source string
	cmd := &cobra.Command{
		Use:   "build [NAME]...",
		Short: "Build and download what is not in the cache yet",
		Long:  "Build and download everything that a lab needs by default, or the programs that are named;\nenvoy@VERSION is another version of Envoy.",
		Example: "  meshtrial lab components build\n" +
			"  meshtrial lab components build metrics-server envoy@1.39.0",
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			b, line, err := newBuilder(env, source)
			if err != nil {
				return err
			}
			set, err := b.Ensure(cmd.Context(), args...)
			line.Clear()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(env.Stdout, struct {
					Schema   string               `json:"schema"`
					Seconds  float64              `json:"elapsed_s"`
					Programs []components.Located `json:"programs"`
					Versions []components.Version `json:"versions"`
				}{componentsSchema, time.Since(began).Seconds(), set.Programs(), set.Versions()})
			}
			for _, p := range set.Programs() {
				fmt.Fprintf(env.Stdout, "%-24s %s\n", p.Name, p.Path)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&source, "source", "", "lab/components/src of meshtrial's repository (default: $MESHTRIAL_SOURCE, or found beside the program)")
	return cmd
}

// shorten keeps as much of a digest as tells it from the others.
func shorten(digest string) string {
	kind, sum, ok := strings.Cut(digest, ":")
	if !ok {
		return "-"
	}
	return kind + ":" + sum[:min(12, len(sum))]
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// newBuilder returns a builder that tells a person at env's terminal what it
// does.
func newBuilder(env *Env, source string) (*components.Builder, *progress, error) {
	line := newProgress(env.Stderr)
	b, err := components.New(components.Options{SourceDir: source, Progress: line.Component})
	return b, line, err
}

// Component shows an event of package components. What became ready, or
// needs to be known, stays on a terminal; elsewhere only the latter is said.
func (p *progress) Component(e components.Event) {
	switch e.Phase {
	case components.PhaseReady:
		if p.width > 0 {
			p.Note("%5.0f s  %s is ready", e.Elapsed.Seconds(), e.Component)
		}
	case components.PhaseNote:
		p.Note("%s: %s", e.Component, e.Detail)
	default:
		left := ""
		if e.Left > 0 {
			left = fmt.Sprintf(" (about %s left)", e.Left.Round(time.Second))
		}
		p.Say("%s %s%s  %s", e.Phase, e.Component, left, e.Detail)
	}
}
