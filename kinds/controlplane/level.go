package controlplane

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/study"
)

// numberLevel parses a plain positive number.
func numberLevel(what string, high float64) func(string) (string, *study.Error) {
	return func(s string) (string, *study.Error) {
		hint := "a number of " + what
		if m := study.UnitPattern.FindStringSubmatch(s); m != nil && m[2] != "" {
			return "", study.Complain(study.CodeUnit, "the unit is always "+what+": write "+m[1], "%q has a unit", s)
		}
		v, c := study.Number(s)
		if c != nil {
			if c.Hint == "" {
				c.Hint = hint
			}
			return "", c
		}
		if v <= 0 || v > high {
			return "", study.Complain(study.CodeRange, fmt.Sprintf("from above 0 to %.0f", high), "%s is out of range", s)
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
}

// orWord parses one word, or what another function parses; what describes that in hints.
func orWord(word, what string, parse func(string) (string, *study.Error)) func(string) (string, *study.Error) {
	return func(s string) (string, *study.Error) {
		if s == word {
			return s, nil
		}
		out, c := parse(s)
		if c != nil && c.Hint == "" {
			c.Hint = what + ", or " + word
		}
		return out, c
	}
}

// cpuRequest parses a quantity of CPU, which unlike a limit may not be none.
func cpuRequest(s string) (string, *study.Error) {
	if s == study.LevelNone {
		return "", study.Complain(study.CodeInvalid, "a quantity", "a request cannot be none")
	}
	out, c := study.CPULevel(s)
	if c != nil {
		c.Hint = strings.Replace(c.Hint, ", or none", "", 1)
	}
	return out, c
}

// ageLevel parses a maximum connection age.
func ageLevel(s string) (string, *study.Error) {
	d, c := study.ParseDuration(s)
	if c != nil {
		return "", c
	}
	if d < time.Second || d > 24*time.Hour {
		return "", study.Complain(study.CodeRange, "from 1s to 24h, or none", "%s is out of range", s)
	}
	return study.FormatDuration(d), nil
}

type memoryUnit struct {
	name string
	size float64
}

var memoryUnits = []memoryUnit{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}}

// memoryOf parses a quantity of memory in Kubernetes' format, in bytes.
func memoryOf(s string) (float64, *study.Error) {
	i := slices.IndexFunc(memoryUnits, func(u memoryUnit) bool { return strings.HasSuffix(s, u.name) }) // the last fits all
	v, c := study.Number(strings.TrimSuffix(s, memoryUnits[i].name))
	return math.Round(v * memoryUnits[i].size), c
}

// memoryLevel parses a quantity of memory, and formats it in the largest binary unit that it is a
// multiple of.
func memoryLevel(s string) (string, *study.Error) {
	v, c := memoryOf(s)
	switch {
	case c != nil:
		c.Hint = "use Kubernetes notation, such as 512Mi or 2Gi"
		return "", c
	case v < 1<<20 || v > study.MaxBytes:
		return "", study.Complain(study.CodeRange, "use at least 1Mi", "memory of %s is out of range", s)
	}
	unit := memoryUnit{size: 1}
	if i := slices.IndexFunc(memoryUnits[:3], func(u memoryUnit) bool { return math.Mod(v, u.size) == 0 }); i >= 0 {
		unit = memoryUnits[i]
	}
	return strconv.FormatFloat(v/unit.size, 'f', 0, 64) + unit.name, nil
}

// memoryBytes returns a level of istiod_memory as a number.
func memoryBytes(level string) (float64, bool) {
	v, c := memoryOf(level)
	return v, c == nil
}

var (
	// reNamespaceStem matches the common stem of several labels.
	reNamespaceStem = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$`)
	// reEntryHost matches a host of ServiceEntries.
	reEntryHost = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	// reHost matches hosts of a Sidecar's egress: a DNS name, * or a name with a leading *.
	reHost = lazyregexp.New(`^(\*|(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)$`)
	// Keys and values of labels (Kubernetes: names and label selectors).
	reLabelKey   = lazyregexp.New(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	reLabelValue = lazyregexp.New(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	reEnvName    = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	reImage      = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$`)
)

// hostsLevel parses a list of egress hosts in the format of a Sidecar resource (Istio's reference:
// IstioEgressListener.hosts).
func hostsLevel(s string) (string, *study.Error) {
	const hint = `write namespace/name separated by commas, such as "./*,istio-system/*"`
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		namespace, host, ok := strings.Cut(item, "/")
		switch {
		case !ok:
			return "", study.Complain(study.CodeInvalid, hint, "%q is not a host of a Sidecar", study.Clip(item, 40))
		case namespace != "." && namespace != "*" && namespace != "~" && !study.NamePattern.MatchString(namespace):
			return "", study.Complain(study.CodeInvalid, "use a namespace's name, . for its own, * for all, ~ for none", "%q is not a valid namespace", study.Clip(namespace, 40))
		case !reHost.MatchString(host):
			return "", study.Complain(study.CodeInvalid, `use a full DNS name, or * for all`, "%q is not a valid host", study.Clip(host, 40))
		case slices.Contains(out, item):
			return "", study.Complain(study.CodeDuplicate, "", "host %s is given twice", item)
		}
		out = append(out, item)
	}
	return strings.Join(out, ","), nil
}

// selectorLevel parses one requirement on a namespace's labels.
func selectorLevel(s string) (string, *study.Error) {
	key, value, ok := strings.Cut(s, "=")
	key, not := strings.CutSuffix(strings.TrimSpace(key), "!")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case !ok:
		return "", study.Complain(study.CodeInvalid, "use key=value, key!=value or none", "%q selects no namespaces", study.Clip(s, 40))
	case !reLabelKey.MatchString(key):
		return "", study.Complain(study.CodeInvalid, "", "%q is not a valid label key", study.Clip(key, 40))
	case !reLabelValue.MatchString(value):
		return "", study.Complain(study.CodeInvalid, "", "%q is not a valid label value", study.Clip(value, 40))
	case not:
		return key + "!=" + value, nil
	}
	return key + "=" + value, nil
}

// envLevel parses part of istiod's environment, sorts it by name, and rejects the variables of
// other levers.
func envLevel(levers []study.Factor) func(string) (string, *study.Error) {
	return func(s string) (string, *study.Error) {
		var out []string
		seen := map[string]bool{}
		for item := range strings.SplitSeq(s, ";") {
			name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
			lever := slices.IndexFunc(levers, func(f study.Factor) bool { return f.Lever.Env == name })
			switch {
			case !ok || !reEnvName.MatchString(name):
				return "", study.Complain(study.CodeInvalid, "write NAME=VALUE separated by semicolons", "%q is not an environment variable", study.Clip(item, 40))
			case lever >= 0:
				return "", study.Complain(study.CodeInvalid, "use the factor "+levers[lever].Name, "%s has a lever of its own", name)
			case seen[name]:
				return "", study.Complain(study.CodeDuplicate, "", "%s is given twice", name)
			case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(value) > 4096:
				return "", study.Complain(study.CodeInvalid, "", "the value of %s contains a control character or is longer than 4096 bytes", name)
			}
			seen[name] = true
			out = append(out, name+"="+strings.TrimSpace(value))
		}
		sort.Strings(out)
		return strings.Join(out, ";"), nil
	}
}

func imageLevel(s string) (string, *study.Error) {
	if !reImage.MatchString(s) {
		return "", study.Complain(study.CodeInvalid, "as docker.io/istio/pilot:1.30.0", "%q is not an image", study.Clip(s, 60))
	}
	return s, nil
}
