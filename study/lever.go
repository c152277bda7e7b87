package study

import "time"

// Levels of levers, and of other factors that leave things alone.
const (
	// LevelInstalled leaves a lever as it was found. LevelDefault is what istiod
	// has built in, LevelNone nothing at all.
	LevelInstalled = "installed"
	LevelDefault   = "default"
	LevelNone      = "none"
)

// Lever is a place where istiod reads a setting whose value is the level itself.
// Level default is what istiod has where the setting is absent. The zero value is for settings that
// an adapter applies by code of its own.
type Lever struct {
	Env           string // a variable of istiod's environment
	ProxyMetadata string // of all sidecars, in the mesh configuration
	Flag          string // of istiod's command line, without its dashes
}

// InEnv says which variable of istiod's environment holds the level.
func (f Factor) InEnv(name string) Factor { f.Lever.Env = name; return f }

// InFlag says which flag of istiod's command line holds the level.
func (f Factor) InFlag(name string) Factor { f.Lever.Flag = name; return f }

// InMetadata says which field of all sidecars' metadata holds the level.
func (f Factor) InMetadata(name string) Factor { f.Lever.ProxyMetadata = name; return f }

// AsLever is a factor whose default leaves things as installed; the default that it
// had is [Factor.Usual].
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

// Sets says whether a level of a lever sets something: it is not as installed, and
// not one that means nothing.
func (f Factor) Sets(level string) bool {
	if level == "" || level == NotApplicable {
		return false
	}
	canonical, err := f.Canonical(level)
	return err != nil || canonical != LevelInstalled
}

// FactorDebounceAfter is how long istiod waits for more changes after one.
const FactorDebounceAfter = "debounce_after"

// DebounceAfter is the lever, which steps of scenarios change too.
var DebounceAfter = AsLever(Text(FactorDebounceAfter, ScopeIstiod, "100ms",
	"PILOT_DEBOUNCE_AFTER: how long istiod waits for more changes after one.", DurationPattern, DebounceLevel, "100ms", "2500ms").
	NumericIn("s", SecondsValue).InEnv("PILOT_DEBOUNCE_AFTER").Labelled(Says("debounce %s")))

// DebounceLevel reads how long istiod waits.
func DebounceLevel(s string) (string, *Error) {
	d, c := ParseDuration(s)
	if c != nil {
		return "", c
	}
	if d > 10*time.Minute {
		return "", Complain(CodeRange, "at most 10m is possible", "%s is too long", s)
	}
	return FormatDuration(d), nil
}

// IsLever says that the factor is a setting of the mesh that is left as installed unless a
// study names a level.
func (f Factor) IsLever() bool { return f.Default == LevelInstalled }
