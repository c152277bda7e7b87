package istio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// policy is the content of an AuthorizationPolicy. See istio.io/docs, Reference,
// Authorization Policy, and Concepts, Security, implicit enablement.
type policy struct {
	Action   string `json:"action"`
	Provider struct {
		Name string `json:"name"`
	} `json:"provider"`
	Rules []policyRule `json:"rules"`
}

type policyRule struct {
	From []struct {
		Source map[string][]string `json:"source"`
	} `json:"from"`
	To   []any `json:"to"`
	When []struct {
		Key    string   `json:"key"`
		Values []string `json:"values"`
	} `json:"when"`
}

func policyOf(spec map[string]any) (policy, error) {
	var out policy
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// matches reports whether one of its rules matches the requests of a study.
func (a policy) matches() answer {
	best := no
	for _, r := range a.Rules {
		best = max(best, r.matches())
	}
	return best
}

// matches reports whether all conditions of the rule hold.
func (r policyRule) matches() answer {
	out := yes
	if len(r.From) > 0 {
		best := no
		for _, f := range r.From {
			best = max(best, comesFrom(f.Source))
		}
		out = min(out, best)
	}
	if len(r.To) > 0 {
		out = min(out, maybe)
	}
	for _, w := range r.When {
		switch {
		case strings.HasPrefix(w.Key, "request.auth.") && len(w.Values) > 0:
			return no // requests have no token
		case w.Key == "source.namespace" && len(w.Values) > 0:
			out = min(out, comesFrom(map[string][]string{"namespaces": w.Values}))
		default:
			out = min(out, maybe)
		}
	}
	return out
}

// comesFrom reports whether the requests of a study have such a source. Fields that
// start with not exclude sources.
func comesFrom(source map[string][]string) answer {
	out := yes
	for field, values := range source {
		if len(values) == 0 {
			continue
		}
		of, not := strings.CutPrefix(field, "not")
		if not && of != "" {
			of = strings.ToLower(of[:1]) + of[1:]
		}
		is, known := sources[of]
		switch ours := known && slices.ContainsFunc(values, is); {
		case !known || ours: // for example an address, or a namespace named like a run's
			out = min(out, maybe)
		case not: // none of these is a source of the study
		default:
			return no
		}
	}
	return out
}

// sources report whether a value may be that of a study's requests.
var sources = map[string]func(string) bool{
	// Requires a token. Requests of the part jwt-token have one, but a study of
	// parts is refused if others have mesh-wide policies.
	"requestPrincipals": func(string) bool { return false },
	"namespaces":        ofRun,
	"principals": func(principal string) bool {
		_, namespace, known := strings.Cut(principal, "/ns/")
		namespace, _, whole := strings.Cut(namespace, "/")
		return !known || !whole && strings.HasSuffix(namespace, "*") && ofRun(namespace) || ofRun(namespace)
	},
	"serviceAccounts": func(account string) bool {
		namespace, _, known := strings.Cut(account, "/")
		return known && ofRun(namespace)
	},
}

// namespacesOfRuns are the name prefixes of the namespaces that a run creates.
var namespacesOfRuns = []string{"meshtrial-", "mm-"}

// ofRun reports whether a pattern, with * for any prefix or suffix, may match a
// namespace of a run.
func ofRun(pattern string) bool {
	begin, any := strings.CutSuffix(pattern, "*")
	if strings.HasPrefix(begin, "*") || begin == "" && any {
		return true
	}
	return slices.ContainsFunc(namespacesOfRuns, func(ours string) bool {
		return strings.HasPrefix(begin, ours) || any && strings.HasPrefix(ours, begin)
	})
}

// tries reports whether a policy is a dry run, which counts but does not enforce.
func (o rooted) tries() bool {
	only, err := strconv.ParseBool(o.object.GetAnnotations()["istio.io/dry-run"]) // parsed like istiod does
	return err == nil && only
}

// authorizes checks whether mesh-wide policies admit the requests of a study. The
// error names one that certainly does not; doubts lists those that may not.
func (f AsFound) authorizes() (doubts []string, err error) {
	var denied rooted
	allowed, asksAll := no, no // whether a rule allows, and whether one must
	for _, o := range f.others {
		if o.kind != kindAuthorization || o.tries() {
			continue
		}
		a, bad := policyOf(o.spec())
		if bad != nil {
			doubts = append(doubts, fmt.Sprintf("%s cannot be read: %v", o, bad))
			continue
		}
		takes := min(o.touches, a.matches())
		switch a.Action {
		case "", "ALLOW":
			allowed = max(allowed, takes)
			if o.touches > asksAll {
				asksAll, denied = o.touches, o
			}
			continue
		case "AUDIT":
			continue
		}
		switch takes {
		case yes:
			return doubts, f.refusedBy(o, a)
		case maybe:
			doubts = append(doubts, fmt.Sprintf("%s (action %s) may apply to requests of the study", o, a.Action))
		}
	}
	switch {
	case asksAll == no || allowed == yes:
	case asksAll == yes && allowed == no:
		return doubts, errs.WithHint(fmt.Errorf("istio: with %s, sidecars of the whole mesh deny what no policy allows, and no policy allows the study's requests", denied),
			"allow them while the study runs: an AuthorizationPolicy in namespace %s with spec: {selector: {matchLabels: {app.kubernetes.io/part-of: meshtrial}}, rules: [{}]}", f.root)
	default:
		doubts = append(doubts, fmt.Sprintf("%s and the policies beside it allow only some requests: whether they allow the study's is unknown", denied))
	}
	return doubts, nil
}

// refusedBy returns the error for a policy that denies every request.
func (f AsFound) refusedBy(o rooted, a policy) error {
	hint := "restrict it with spec.selector to the workloads it is for, at least while the study runs"
	if a.Action == "CUSTOM" {
		return errs.WithHint(fmt.Errorf("istio: with %s, sidecars would ask the external provider %s to authorize each of the study's requests", o, a.Provider.Name), "%s", hint)
	}
	return errs.WithHint(fmt.Errorf("istio: %s (action %s) applies to every request in the mesh, including the study's", o, a.Action), "%s", hint)
}
