package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/study"
)

// clusterCheck holds the flags of `meshtrial cluster check`.
type clusterCheck struct {
	cluster   cluster.Options
	sets      []string
	features  []string
	namespace string
	json      bool
	manifests bool
	user      string
	group     string
	account   string
	observe   string
}

func clusterCheckCommand(env *Env) *cobra.Command {
	var f clusterCheck
	cmd := &cobra.Command{
		Use:   "check [STUDY...]",
		Short: "List the permissions that studies need in a cluster, and those that are missing",
		Long: "Query the API server, feature by feature, for the permissions of this user that the studies need.\n" +
			"Without a study or --feature it checks everything that meshtrial does with Istio. It changes\n" +
			"nothing.\n\n" +
			"--manifests prints the ClusterRole and Roles, with their bindings, that grant exactly these\n" +
			"permissions, for an administrator to apply.\n\n" +
			"Exit codes: 0 a run could start, 3 a required permission is missing.\n\n" +
			strings.Join(words.Lines("Features: "+strings.Join(rights.Names(), ", ")+".", 100), "\n"),
		Example: "  meshtrial cluster check quick\n" +
			"  meshtrial cluster check quick --manifests --user jane | kubectl apply -f -\n" +
			"  meshtrial cluster check --feature assess --manifests --serviceaccount monitoring/meshtrial",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), env, args) },
	}
	flags := cmd.Flags()
	addKubeconfigFlags(flags, &f.cluster.Kubeconfig, &f.cluster.Context, "")
	flags.StringArrayVar(&f.features, "feature", nil, "also check the feature of this `NAME`; may be repeated")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace for features limited to one, such as assess-config and profile (default: all)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVar(&f.manifests, "manifests", false, "print roles and bindings that grant the permissions")
	flags.StringVar(&f.user, "user", "", "with --manifests: user to grant them to")
	flags.StringVar(&f.group, "group", "", "with --manifests: group to grant them to")
	flags.StringVar(&f.account, "serviceaccount", "", "with --manifests: service account to grant them to, `NAMESPACE/NAME`")
	addObserveFlag(flags, &f.observe)
	addSetFlag(cmd, &f.sets)
	return cmd
}

func (f clusterCheck) run(ctx context.Context, env *Env, args []string) error {
	to, err := f.subject()
	if err != nil {
		return err
	}
	features, err := f.wanted(ctx, env, args)
	if err != nil {
		return err
	}
	if f.manifests {
		text, notes, err := app.RightsManifests(ctx, f.cluster, features, to)
		for _, note := range notes {
			fmt.Fprintf(env.Stderr, "note: %s\n", note)
		}
		if err == nil {
			_, err = env.Stdout.Write(text)
		}
		return err
	}
	report, err := app.CheckRights(ctx, f.cluster, features)
	if err != nil {
		return err
	}
	err = env.print(f.json, report, rightsText(report))
	if err == nil && report.Missing > 0 {
		return quiet(errs.CodeAssertion)
	}
	return err
}

// subject returns the user, group or account to which manifests grant the rights.
func (f clusterCheck) subject() (rights.Subject, error) {
	var all []rights.Subject
	if f.user != "" {
		all = append(all, rights.Subject{Kind: "User", Name: f.user})
	}
	if f.group != "" {
		all = append(all, rights.Subject{Kind: "Group", Name: f.group})
	}
	if f.account != "" {
		namespace, name, ok := strings.Cut(f.account, "/")
		if !ok || namespace == "" || name == "" {
			return rights.Subject{}, errs.WithHint(errs.Usage("invalid --serviceaccount %q", f.account), "write NAMESPACE/NAME, such as ci/meshtrial")
		}
		all = append(all, rights.Subject{Kind: "ServiceAccount", Name: name, Namespace: namespace})
	}
	switch {
	case f.manifests && f.json:
		return rights.Subject{}, errs.Usage("--manifests and --json are mutually exclusive")
	case f.manifests && len(all) != 1:
		return rights.Subject{}, errs.WithHint(errs.Usage("--manifests requires a user, a group or a service account"), "give one of --user, --group and --serviceaccount")
	case !f.manifests && len(all) > 0:
		return rights.Subject{}, errs.WithHint(errs.Usage("--user, --group and --serviceaccount require --manifests"), "without it, the kubeconfig's user is checked")
	case f.manifests:
		return all[0], nil
	}
	return rights.Subject{}, nil
}

// wanted returns the features of the studies and the named features, with their places.
func (f clusterCheck) wanted(ctx context.Context, env *Env, args []string) ([]rights.Feature, error) {
	var all []rights.Feature
	for _, arg := range args {
		s, _, err := loadStudy(ctx, env, arg, f.sets)
		if err != nil {
			return nil, err
		}
		needs, err := app.StudyRights(s, f.observe, f.namespace)
		if err != nil {
			return nil, err
		}
		all = rights.Join(all, needs)
	}
	named, err := rights.Named(f.features...)
	if err != nil {
		return nil, errs.WithHint(errs.Usage("%v", err), "known features: %s", strings.Join(rights.Names(), ", "))
	}
	if len(args)+len(named) == 0 {
		named = slices.DeleteFunc(rights.Features(), func(f rights.Feature) bool { return f.Name == rights.PullSecret }) // only on request
	}
	return rights.Join(all, rights.Place(named, app.Places([]string{study.MeshIstio}, f.namespace))), nil
}

// rightsText has a block for each feature: what it is, what its pods may do on nodes, and a line
// for each right.
func rightsText(r app.ClusterRights) string {
	out := &strings.Builder{}
	fmt.Fprintf(out, "cluster of context %s, Kubernetes %s\n", r.Context, r.Kubernetes)
	for i := range r.Features {
		c := &r.Features[i]
		fmt.Fprintf(out, "\n%s: %s\n", c.Name, c.Doc)
		if c.Privileged != "" {
			fmt.Fprintf(out, "  privileged: %s\n", c.Privileged)
		}
		if c.Without != "" {
			fmt.Fprintf(out, "  without it: %s\n", c.Without)
		}
		for k := range c.Answers {
			writeAnswer(out, &c.Answers[k])
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(out, "\nnote: %s\n", note)
	}
	switch {
	case r.Missing+r.Lacking == 0:
		fmt.Fprintf(out, "\nall permissions are granted\n")
	case r.Missing == 0:
		fmt.Fprintf(out, "\nall required permissions are granted; %s not\n", isAre(r.Lacking, "other"))
	default:
		fmt.Fprintf(out, "\nmissing: %s that must be granted, %s\n", words.Plural(r.Missing, "line"), words.Plural(r.Lacking, "other"))
	}
	return out.String()
}

func isAre(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

// writeAnswer prints which verbs of a right are granted and which are missing.
func writeAnswer(out *strings.Builder, a *cluster.Answer) {
	granted := slices.DeleteFunc(slices.Clone(a.Verbs), func(verb string) bool { return slices.Contains(a.Missing, verb) })
	if len(granted) > 0 {
		fmt.Fprintf(out, "  granted  %s\n", a.Words(granted))
	}
	switch {
	case a.Needed():
		fmt.Fprintf(out, "  missing  %s\n", a)
	case len(a.Missing) > 0:
		fmt.Fprintf(out, "  lacking  %s\n           without it: %s\n", a, a.Without)
	}
}
