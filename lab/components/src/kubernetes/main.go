// Command kubernetes is every program of a one-node Kubernetes in one file:
// it is the program whose name it is started under. One link instead of
// seven, one copy on disk, and pages of code shared by all of them.
//
//	etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl
//
// Started as kubernetes, its first argument names the program.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs gives each name its main, which returns the exit status.
var programs = map[string]func() int{
	"etcd": func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver": func() int {
		return cli.Run(apiserver.NewAPIServerCommand())
	},
	"kube-controller-manager": func() int {
		return cli.Run(controllers.NewControllerManagerCommand())
	},
	"kube-scheduler": func() int {
		return cli.Run(scheduler.NewSchedulerCommand())
	},
	"kubelet": func() int {
		return cli.Run(kubelet.NewKubeletCommand(context.Background()))
	},
	"kube-proxy": func() int {
		return cli.Run(proxy.NewProxyCommand())
	},
	"kubectl": runKubectl,
}

func runKubectl() int {
	// kubectl reads its verbosity before it parses its flags, because its
	// plugins and preferences log earlier than that.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	var command *cobra.Command = kubectl.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err) // prints and exits
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	program := programs[name]
	if program == nil {
		var names []string
		for n := range programs {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "kubernetes: start it under one of these names, or give one first: %s\n", strings.Join(names, " "))
		os.Exit(2)
	}
	os.Exit(program())
}
