package pipelines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/meshtrial/meshtrial/testing/must"
)

// step is a step of a composite action.
type step struct {
	Name, If, Uses, Shell, Run string
	Env, With                  map[string]string
}

// action reads the GitHub Action: its defaults, and its steps by name or, if they have none,
// by the action that they use.
func action(t *testing.T) (defaults map[string]string, steps map[string]step) {
	t.Helper()
	var a struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []step }
	}
	data, err := os.ReadFile("../../action.yml")
	must.OK(t, err)
	must.OK(t, yaml.Unmarshal(data, &a))
	defaults, steps = map[string]string{}, map[string]step{}
	for name, input := range a.Inputs {
		defaults[name] = input.Default
	}
	for _, s := range a.Runs.Steps {
		steps[cmp.Or(s.Name, s.Uses)] = s
	}
	return defaults, steps
}

// job is the job of the GitLab template.
type job struct {
	Stage, Image any
	Variables    map[string]any
	Rules        []struct {
		If        string
		Variables map[string]string
	}
	Cache struct {
		Key    any
		Policy string
	}
	Script []string
}

// gitlab reads the GitLab template as GitLab does: it replaces inputs in the text and parses
// the result. Inputs have their defaults; given replaces those without a default, and all if
// all is set.
func gitlab(t *testing.T, given string, all bool) job {
	t.Helper()
	data, err := os.ReadFile("../../templates/meshtrial.yml")
	must.OK(t, err)
	head, jobs, found := strings.Cut(string(data), "\n---\n")
	if !found {
		t.Fatal("the template has no document after its spec")
	}
	var header struct {
		Spec struct {
			Inputs map[string]struct{ Default string }
		}
	}
	must.OK(t, yaml.Unmarshal([]byte(head), &header))
	name := ""
	for input, declared := range header.Spec.Inputs {
		value := declared.Default
		if all || value == "" {
			value = given
		}
		if input == "job" {
			name = value
		}
		jobs = strings.ReplaceAll(jobs, "$[[ inputs."+input+" ]]", value)
	}
	if strings.Contains(jobs, "$[[") {
		t.Fatalf("the template uses an input that it does not declare:\n%s", jobs)
	}
	var parsed map[string]job
	if err := yaml.Unmarshal([]byte(jobs), &parsed); err != nil {
		t.Fatalf("%v in\n%s", err, jobs)
	}
	j, ok := parsed[name]
	if !ok || len(j.Script) != 1 {
		t.Fatalf("%+v", parsed)
	}
	return j
}

// Whatever an input contains, it is one string where it is used.
func TestGitLabInputs(t *testing.T) {
	for _, value := range []string{"true", "5", "1e3", "null", "a: b # c", "[a", "{a", "*a", "&a b", "- a", "? a", "!a b", "%a", "@a", "`a`", "'a", "| a"} {
		j := gitlab(t, value, true)
		if j.Stage != value || j.Image != value || j.Variables["MESHTRIAL_STUDY"] != value || j.Variables["MESHTRIAL_MARGIN"] != value || j.Cache.Key != value+"-before" {
			t.Errorf("%q became %+v", value, j)
		}
	}
	for name, value := range gitlab(t, "quick", false).Variables {
		if _, ok := value.(string); !ok {
			t.Errorf("variable %s is %#v", name, value)
		}
	}
}

// The default branch keeps its run for others; merge requests read it.
func TestGitLabKeeps(t *testing.T) {
	j := gitlab(t, "quick", false)
	if j.Variables["MESHTRIAL_KEEP"] != "false" || j.Variables["MESHTRIAL_CACHE_POLICY"] != "pull" || j.Cache.Policy != "$MESHTRIAL_CACHE_POLICY" {
		t.Errorf("without a rule it has %v", j.Variables)
	}
	for _, r := range j.Rules {
		base := r.If == "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"
		if keeps := r.Variables["MESHTRIAL_KEEP"] == "true"; keeps != base {
			t.Errorf("keeps if %s: %t", r.If, keeps)
		}
		if saves := r.Variables["MESHTRIAL_CACHE_POLICY"] == "pull-push"; saves != base {
			t.Errorf("writes the cache if %s: %t", r.If, saves)
		}
	}
	if len(j.Rules) != 2 {
		t.Errorf("%d rules", len(j.Rules))
	}
}

// Both run the same script, into which no expression is pasted.
func TestOneScript(t *testing.T) {
	_, steps := action(t)
	gitlab := gitlab(t, "quick", false)
	script := gitlab.Script[0]
	if script != steps["Run"].Run {
		t.Error("the scripts of action.yml and templates/meshtrial.yml differ")
	}
	for name, s := range steps {
		if s.Run != "" && (strings.Contains(s.Run, "${{") || s.Shell != "bash") {
			t.Errorf("step %s is %s, with what others wrote in it:\n%s", name, s.Shell, s.Run)
		}
	}
	for name := range steps["Run"].Env {
		if _, ok := gitlab.Variables[name]; !ok {
			t.Errorf("GitLab's job has no variable %s", name)
		}
	}
	for _, name := range regexp.MustCompile(`MESHTRIAL_[A-Z_]+`).FindAllString(script, -1) {
		if _, ok := steps["Run"].Env[name]; !ok {
			t.Errorf("the script uses %s, which no step sets", name)
		}
	}
}

// fake stands in for meshtrial: it records its arguments, changes files like a run, and exits
// with the code in a variable for its command.
const fake = `#!/bin/sh
{ printf '%s' "$1"; for a in "$@"; do printf ' <%s>' "$a"; done; echo; } >>"$CALLS"
command=$1
out= format=
while [ $# -gt 0 ]; do
  case $1 in --out) out=$2 ;; --format) format=$2 ;; esac
  shift
done
case $command in
run) [ -n "$NO_RUN" ] || mkdir -p "$out"; exit "${RUN_CODE:-0}" ;;
report) echo "as $format" >"$out"; exit "${REPORT_CODE:-0}" ;;
compare) echo "compared"; exit "${COMPARE_CODE:-0}" ;;
esac
`

// sudo records its call and executes the command.
const sudo = `#!/bin/sh
echo "sudo $1" >>"$CALLS"
[ "$1" != -E ] || shift
exec "$@"
`

func TestScript(t *testing.T) {
	defaults, steps := action(t)
	script := gitlab(t, "quick", false).Script[0]
	for _, c := range []struct {
		name   string
		inputs map[string]string
		env    []string
		before []string // runs of the base branch
		event  string   // default pull_request
		code   int
		calls  []string // prefixes, in order
		files  []string // below the folder that the pipeline keeps
		says   string   // part of the job's summary
		kept   int
	}{
		{name: "a run", calls: []string{"run <run> <quick> <--out> <meshtrial/run>", "report", "report", "report"},
			files: []string{"junit.xml", "report.html", "run", "summary.md"}, says: "as markdown\n"},
		{name: "an assertion failed", env: []string{"RUN_CODE=3", "REPORT_CODE=3"}, code: 3, calls: []string{"run", "report", "report", "report"},
			files: []string{"junit.xml", "report.html", "run", "summary.md"}, says: "as markdown\n"},
		{name: "inconclusive", env: []string{"RUN_CODE=4", "REPORT_CODE=4"}, code: 4, calls: []string{"run", "report", "report", "report"},
			files: []string{"junit.xml", "report.html", "run", "summary.md"}, says: "as markdown\n"},
		{name: "wrong usage", env: []string{"RUN_CODE=2", "NO_RUN=1"}, code: 2, calls: []string{"run"}},
		{name: "no report", env: []string{"REPORT_CODE=1"}, code: 1, calls: []string{"run", "report", "report", "report"},
			files: []string{"junit.xml", "report.html", "run", "summary.md"}},
		{name: "worse than the base", before: []string{"a", "b c"}, env: []string{"COMPARE_CODE=3"}, code: 3,
			inputs: map[string]string{"compare-flags": "--across=machines\n", "margin": "7%"},
			calls: []string{"run", "report", "report", "report",
				"compare <compare> <meshtrial-before/a> <meshtrial-before/b c> <--with> <meshtrial/run> <--margin> <7%> <--across=machines>"},
			files: []string{"compare.txt", "junit.xml", "report.html", "run", "summary.md"}, says: "\n````\ncompared\n````\n"},
		{name: "failed, and worse", before: []string{"a"}, env: []string{"RUN_CODE=4", "COMPARE_CODE=3"}, code: 4,
			calls: []string{"run", "report", "report", "report", "compare"}},
		{name: "of the base itself", event: "push", before: []string{"1", "2", "3", "4", "5"}, calls: []string{"run", "report", "report", "report"}, kept: 5},
		{name: "each night", event: "schedule", before: []string{"1"}, calls: []string{"run", "report", "report", "report"}, kept: 2},
		{name: "by hand", event: "workflow_dispatch", before: []string{"1"}, calls: []string{"run", "report", "report", "report"}, kept: 2},
		{name: "of a stranger with the base's rights", event: "pull_request_target", before: []string{"1"}, calls: []string{"run", "report", "report", "report", "compare"}, kept: 1},
		{name: "before a merge", event: "merge_group", before: []string{"1"}, calls: []string{"run", "report", "report", "report", "compare"}, kept: 1},
		{name: "of a base that fails", event: "push", env: []string{"RUN_CODE=3"}, code: 3, before: []string{"1"}, calls: []string{"run", "report", "report", "report"}, kept: 1},
		{name: "as root", inputs: map[string]string{"sudo": "true"}, before: []string{"a"}, calls: []string{"sudo -E", "run", "sudo chown", "report", "report", "report", "compare"}},
		{name: "what others wrote", inputs: map[string]string{"study": "a $(touch pwned) `touch pwned` \"'; touch pwned", "flags": "--set=a b\n\n--limit=$(touch pwned)\n*"},
			calls: []string{"run <run> <a $(touch pwned) `touch pwned` \"'; touch pwned> <--out> <meshtrial/run> <--set=a b> <--limit=$(touch pwned)> <*>", "report", "report", "report"}},
		{name: "a flag for a study", inputs: map[string]string{"study": "--yes"}, code: 2},
	} {
		for _, shell := range [][]string{{"bash", "--noprofile", "--norc", "-eo", "pipefail"}, {"sh", "-e"}} {
			t.Run(c.name+" in "+shell[0], func(t *testing.T) {
				dir, bin := t.TempDir(), t.TempDir()
				write := func(path, text string) {
					t.Helper()
					must.OK(t, os.WriteFile(path, []byte(text), 0o755))
				}
				write(filepath.Join(bin, "meshtrial"), fake)
				write(filepath.Join(bin, "sudo"), sudo)
				write(filepath.Join(bin, "script"), script)
				for _, run := range c.before {
					must.OK(t, os.MkdirAll(filepath.Join(dir, "meshtrial-before", run), 0o755))
				}
				cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], filepath.Join(bin, "script"))...)
				calls, summary := filepath.Join(bin, "calls"), filepath.Join(bin, "summary")
				cmd.Dir = dir
				cmd.Env = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "CALLS=" + calls, "GITHUB_STEP_SUMMARY=" + summary}, c.env...)
				for name, expression := range steps["Run"].Env {
					cmd.Env = append(cmd.Env, name+"="+value(t, expression, defaults, c.inputs, cmp.Or(c.event, "pull_request")))
				}
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
					t.Fatal(err)
				}
				if code := cmd.ProcessState.ExitCode(); code != c.code {
					t.Errorf("exit code %d, want %d\n%s", code, c.code, said.String())
				}
				noted, _ := os.ReadFile(calls)
				lines := strings.Split(strings.TrimSuffix(string(noted), "\n"), "\n")
				if len(noted) == 0 {
					lines = nil
				}
				if !slices.EqualFunc(lines, c.calls, strings.HasPrefix) {
					t.Errorf("called\n%s\nwant\n%s", noted, strings.Join(c.calls, "\n"))
				}
				if c.files != nil {
					if got := names(filepath.Join(dir, "meshtrial")); !slices.Equal(got, c.files) {
						t.Errorf("left %q, want %q", got, c.files)
					}
				}
				if text, _ := os.ReadFile(summary); !strings.Contains(string(text), c.says) {
					t.Errorf("the summary lacks %q: %s", c.says, text)
				}
				if c.kept > 0 {
					if got := names(filepath.Join(dir, "meshtrial-before")); len(got) != c.kept {
						t.Errorf("kept %q, want %d", got, c.kept)
					}
				}
				if found, _ := filepath.Glob(filepath.Join(dir, "pwned")); found != nil {
					t.Error("text of others was run as shell")
				}
			})
		}
	}
}

var events = regexp.MustCompile(`^contains\(fromJSON\('(\[.*\])'\), github\.event_name\)$`)

// value evaluates an expression of the action for inputs and an event.
func value(t *testing.T, expression string, defaults, inputs map[string]string, event string) string {
	t.Helper()
	expression = strings.TrimSuffix(strings.TrimPrefix(expression, "${{ "), " }}")
	if name, ok := strings.CutPrefix(expression, "inputs."); ok {
		if given, ok := inputs[name]; ok {
			return given
		}
		switch name {
		case "study":
			return "quick"
		case "sudo":
			return "false"
		}
		return defaults[name]
	}
	if of := events.FindStringSubmatch(expression); of != nil {
		var list []string
		must.OK(t, json.Unmarshal([]byte(of[1]), &list))
		return strconv.FormatBool(slices.Contains(list, event))
	}
	t.Fatalf("the test knows no expression %q", expression)
	return ""
}

// A run is restored if the same study, job and branch kept it, and saved if it was kept.
func TestCacheKeys(t *testing.T) {
	_, steps := action(t)
	restore, run, save := steps["actions/cache/restore@v4"], steps["Run"], steps["actions/cache/save@v4"]
	if run.Env["MESHTRIAL_KEEP"] != "${{ "+save.If+" }}" {
		t.Errorf("runs are saved if %s, and kept if %s", save.If, run.Env["MESHTRIAL_KEEP"])
	}
	type job struct{ study, artifact, branch string }
	key := func(key string, j job) string {
		out := strings.NewReplacer("${{ inputs.study }}", j.study, "${{ inputs.artifact }}", j.artifact, "${{ github.run_id }}", "17",
			"${{ github.ref_name }}", j.branch, "${{ github.base_ref || github.ref_name }}", j.branch).Replace(key)
		if strings.Contains(out, "${{") {
			t.Fatalf("the test does not know all of %s", key)
		}
		return out
	}
	base := job{"quick", "meshtrial", "main"}
	for _, other := range []job{base, {"quick", "meshtrial", "main-2"}, {"quick", "meshtrial", "main/2"}, {"quick", "other", "main"}, {"slow", "meshtrial", "main"}} {
		if found := strings.HasPrefix(key(save.With["key"], other), key(restore.With["restore-keys"], base)); found != (other == base) {
			t.Errorf("%v finds the runs of %v: %t", base, other, found)
		}
	}
	if !strings.HasPrefix(restore.With["key"], restore.With["restore-keys"]) || restore.With["path"] != save.With["path"] {
		t.Errorf("%v is restored, %v saved", restore.With, save.With)
	}
}

func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// The program is built from the action's own repository, with the version of a release, and
// put on PATH.
func TestBuildStep(t *testing.T) {
	_, steps := action(t)
	if got := steps["Build"].Env["MESHTRIAL_REF"]; got != "${{ github.action_ref }}" {
		t.Errorf("the ref is %q", got)
	}
	for ref, stamp := range map[string]string{"v1.2.3": "v1.2.3", "": "", "v1": "", "main": "", "v1.2.3-$(id)": "", "0123456789abcdef0123456789abcdef01234567": ""} {
		bin, path := t.TempDir(), filepath.Join(t.TempDir(), "path")
		must.OK(t, os.WriteFile(filepath.Join(bin, "make"), []byte("#!/bin/sh\n[ \"$*\" = \"-C /an action build STAMP="+stamp+"\" ]\n"), 0o755))
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps["Build"].Run)
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "GITHUB_ACTION_PATH=/an action", "GITHUB_PATH=" + path, "MESHTRIAL_REF=" + ref}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ref %q: %v: %s", ref, err, out)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "/an action/bin\n" {
			t.Errorf("ref %q: %q, %v", ref, got, err)
		}
	}
}
