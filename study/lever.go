package study

import "time"

// Levels of levers, and of other factors that can leave settings alone.
const (
	// LevelInstalled leaves a lever as found. LevelDefault is istiod's built-in default, and
	// LevelNone means no value.
	LevelInstalled = "installed"
	LevelDefault   = "default"
	LevelNone      = "none"
)

// Lever says where istiod reads a setting whose value is the level itself. Level default removes
// the setting, which leaves istiod's built-in default. The zero value is for settings that an
// adapter applies in code.
type Lever struct {
	Env           string // a variable in istiod's environment
	ProxyMetadata string // for all sidecars, in the mesh configuration
	Flag          string // on istiod's command line, without the dashes
}

// InEnv stores the level in a variable of istiod's environment.
func (f Factor) InEnv(name string) Factor { f.Lever.Env = name; return f }

// InFlag passes the level as a flag on istiod's command line.
func (f Factor) InFlag(name string) Factor { f.Lever.Flag = name; return f }

// InMetadata stores the level in a field of all sidecars' metadata.
func (f Factor) InMetadata(name string) Factor { f.Lever.ProxyMetadata = name; return f }

// AsLever makes "installed" the default of a factor; the former default becomes [Factor.Usual].
func AsLever(f Factor) Factor {
	f.Usual, f.Default = f.Default, LevelInstalled
	if f.Levels != nil {
		f = f.Amongst(func() []string { return f.Levels })
		f.Levels = append([]string{LevelInstalled}, f.Levels...)
	} else {
		f.Pattern = "^" + LevelInstalled + "$|" + f.Pattern
		f.Examples = append([]string{LevelInstalled}, f.Examples...)
	}
	parse, label, words := f.Parse, f.Label, f.words()+" as installed"
	f.Parse = func(s string) (string, *Error) {
		if s == LevelInstalled {
			return LevelInstalled, nil
		}
		out, c := parse(s)
		if c != nil && f.Levels == nil && c.Hint != "" {
			c.Hint += "; or " + LevelInstalled
		}
		return out, c
	}
	f.label = func(level string) string {
		if level == LevelInstalled {
			return words
		}
		return label(level)
	}
	phrase, subject := f.Phrase, f.Subject
	f.phrase = func(level string) string {
		if level == LevelInstalled {
			return "with " + words
		}
		return phrase(level)
	}
	f.subject = func(level string) (string, bool) {
		if level == LevelInstalled {
			return words, false
		}
		return subject(level)
	}
	return f
}

// Sets reports whether a level of a lever sets something, that is, whether it is applicable and not
// as installed.
func (f Factor) Sets(level string) bool {
	if level == "" || level == NotApplicable {
		return false
	}
	canonical, err := f.Canonical(level)
	return err != nil || canonical != LevelInstalled
}

// FactorDebounceAfter is the time that istiod waits for more changes after one.
const FactorDebounceAfter = "debounce_after"

// DebounceAfter is the lever, which steps of scenarios also change.
var DebounceAfter = AsLever(Text(FactorDebounceAfter, ScopeIstiod, "100ms",
	"PILOT_DEBOUNCE_AFTER: how long istiod waits for more changes after one.", DurationPattern, DebounceLevel, "100ms", "2500ms").
	NumericIn("s", SecondsValue).InEnv("PILOT_DEBOUNCE_AFTER").Labelled(Says("debounce %s")))

// DebounceLevel parses a debounce time of istiod.
func DebounceLevel(s string) (string, *Error) {
	d, c := ParseDuration(s)
	if c != nil {
		return "", c
	}
	if d > 10*time.Minute {
		return "", Complain(CodeRange, "use at most 10m", "%s is too long", s)
	}
	return FormatDuration(d), nil
}

// IsLever reports whether the factor is a mesh setting that stays as installed unless a study names
// a level.
func (f Factor) IsLever() bool { return f.Default == LevelInstalled }
