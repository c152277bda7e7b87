package main
import ("testing";"strings")
func TestZZ(t *testing.T){ p:=repositoryPackages(t)
 for _,m:=range []string{"test","verify"}{ for i,st:=range makePlan(m,p,true){ for _,l:=range st { for _,j:=range l.jobs { c:=strings.ReplaceAll(strings.Join(j.command," "),module,""); if len(c)>330{c=c[:330]+"…"}; t.Log(m,i,l.name,l.lab,j.name,": ",c)}}}}}
