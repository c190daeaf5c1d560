# Draws time_differences.svg from time_differences.dat: cd figures && gnuplot time_differences.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,1000 dynamic font 'sans-serif,13' name 'time_differences' linewidth 1
set output 'time_differences.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.48333
set rmargin at screen 0.78333
set tmargin at screen 0.96400
set bmargin at screen 0.54400
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q4 less q8' at screen 0.00833,0.98200 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'microseconds a round; right of the line: takes longer' at screen 0.78333,0.98200 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-33.6492325018523:3.5229651473839807]
set xtics 10 format '%.0f'
set yrange [-0.5:19.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set arrow from graph 0, first 0.5 to graph 1, first 0.5 nohead back lc rgb '#c8cfd5' lw 1 dt 1
set arrow from graph 0, first 4.5 to graph 1, first 4.5 nohead back lc rgb '#c8cfd5' lw 1 dt 1
set label 'product q8 + activation -> produ…on  layers.*.mlp.gate_proj.weight' at screen 0.00833, first 19 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−9.36 [−9.56, −9.16]' at screen 0.79792, first 19 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 -> product q4  layers.*.linear_attn.in_proj_qkv.weight' at screen 0.00833, first 18 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−7.00 [−7.13, −6.86]' at screen 0.79792, first 18 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 -> product q4  layers.*.mlp.down_proj.weight' at screen 0.00833, first 17 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−4.01 [−4.09, −3.92]' at screen 0.79792, first 17 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 -> product q4  lm_head.weight' at screen 0.00833, first 16 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−2.74 [−2.80, −2.68]' at screen 0.79792, first 16 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 -> product q4  layers.*.self_attn.q_proj.weight' at screen 0.00833, first 15 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−2.11 [−2.15, −2.06]' at screen 0.79792, first 15 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 -> product q4  layers.*.linear_attn.out_proj.weight' at screen 0.00833, first 14 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−2.09 [−2.14, −2.03]' at screen 0.79792, first 14 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 -> product q4  layers.*.self_attn.o_proj.weight' at screen 0.00833, first 13 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.67 [−0.69, −0.65]' at screen 0.79792, first 13 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'gdn  layers.*.linear_attn' at screen 0.00833, first 12 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.46 [−0.62, −0.30]' at screen 0.79792, first 12 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'attention  layers.*.self_attn' at screen 0.00833, first 11 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.11 [−0.16, −0.05]' at screen 0.79792, first 11 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'embed  embed_tokens.weight' at screen 0.00833, first 10 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.02 [−0.03, −0.01]' at screen 0.79792, first 10 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'rms_norm  layers.*.input_layernorm.weight' at screen 0.00833, first 9 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.02 [−0.03, −0.01]' at screen 0.79792, first 9 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'gdn_commit  layers.*.linear_attn' at screen 0.00833, first 8 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.02 [+0.00, +0.03]' at screen 0.79792, first 8 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'rms_norm  layers.*.post_attention_layernorm.weight' at screen 0.00833, first 7 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.01 [−0.02, +0.01]' at screen 0.79792, first 7 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'argmax  logits' at screen 0.00833, first 6 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.01 [−0.02, +0.01]' at screen 0.79792, first 6 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'rms_norm  norm.weight' at screen 0.00833, first 5 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.00 [−0.01, +0.00]' at screen 0.79792, first 5 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'idle' at screen 0.00833, first 4 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.11 [−0.17, −0.06]' at screen 0.79792, first 4 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'host' at screen 0.00833, first 3 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.04 [−0.05, −0.03]' at screen 0.79792, first 3 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'stalls' at screen 0.00833, first 2 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.32 [−2.17, +1.53]' at screen 0.79792, first 2 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'residual' at screen 0.00833, first 1 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.25 [−1.13, +0.62]' at screen 0.79792, first 1 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'timed round, and what adds up to it' at screen 0.00833, first 0 left font 'sans-serif:Bold,11.5' tc rgb '#1c2126'
set label '−29.30 [−31.66, −26.93]' at screen 0.79792, first 0 left font 'sans-serif:Bold,12' tc rgb '#1c2126'
plot 'time_differences.dat' index 0 using ($5>0&&$3==$3?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#d55e00' title 'q4 less q8', \
  'time_differences.dat' index 0 using ($5==2&&$3==$3?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#d55e00' title 'q4 less q8', \
  'time_differences.dat' index 0 using ($5<2?$2:NaN):1 with points pt 7 ps 0.6 lc rgb '#d55e00' title 'q4 less q8', \
  'time_differences.dat' index 0 using ($5==2?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#d55e00' title 'q4 less q8', \
  'time_differences.dat' index 0 using ($5==2?$6:NaN):1 with points pt 12 ps 1.3 lw 1.6 lc rgb '#1c2126' title 'rows, idle and host added up'

reset
set encoding utf8
set minussign
set lmargin at screen 0.48333
set rmargin at screen 0.78333
set tmargin at screen 0.46400
set bmargin at screen 0.04400
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q8-again less q8' at screen 0.00833,0.48200 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'microseconds a round; right of the line: takes longer' at screen 0.78333,0.48200 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-3.913055650938015:1.114558789771943]
set xtics 1 format '%.0f'
set yrange [-0.5:19.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set arrow from graph 0, first 0.5 to graph 1, first 0.5 nohead back lc rgb '#c8cfd5' lw 1 dt 1
set arrow from graph 0, first 4.5 to graph 1, first 4.5 nohead back lc rgb '#c8cfd5' lw 1 dt 1
set label 'product q8  layers.*.mlp.down_proj.weight' at screen 0.00833, first 19 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.12 [+0.02, +0.23]' at screen 0.79792, first 19 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8  lm_head.weight' at screen 0.00833, first 18 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.09 [+0.04, +0.15]' at screen 0.79792, first 18 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'gdn  layers.*.linear_attn' at screen 0.00833, first 17 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.07 [−0.08, +0.23]' at screen 0.79792, first 17 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8 + activation  layers.*.mlp.gate_proj.weight' at screen 0.00833, first 16 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.03 [−0.15, +0.22]' at screen 0.79792, first 16 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8  layers.*.linear_attn.in_proj_qkv.weight' at screen 0.00833, first 15 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.02 [−0.13, +0.16]' at screen 0.79792, first 15 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8  layers.*.self_attn.o_proj.weight' at screen 0.00833, first 14 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.02 [−0.02, +0.05]' at screen 0.79792, first 14 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8  layers.*.self_attn.q_proj.weight' at screen 0.00833, first 13 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.02 [−0.04, +0.08]' at screen 0.79792, first 13 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'product q8  layers.*.linear_attn.out_proj.weight' at screen 0.00833, first 12 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.01 [−0.05, +0.07]' at screen 0.79792, first 12 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'rms_norm  layers.*.post_attention_layernorm.weight' at screen 0.00833, first 11 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.01 [−0.00, +0.02]' at screen 0.79792, first 11 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'argmax  logits' at screen 0.00833, first 10 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.01 [−0.00, +0.02]' at screen 0.79792, first 10 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'rms_norm  layers.*.input_layernorm.weight' at screen 0.00833, first 9 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.00 [−0.01, +0.02]' at screen 0.79792, first 9 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'embed  embed_tokens.weight' at screen 0.00833, first 8 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.00 [−0.01, +0.00]' at screen 0.79792, first 8 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'gdn_commit  layers.*.linear_attn' at screen 0.00833, first 7 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.00 [−0.01, +0.02]' at screen 0.79792, first 7 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'rms_norm  norm.weight' at screen 0.00833, first 6 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.00 [−0.00, +0.01]' at screen 0.79792, first 6 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'attention  layers.*.self_attn' at screen 0.00833, first 5 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.00 [−0.05, +0.05]' at screen 0.79792, first 5 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'idle' at screen 0.00833, first 4 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.02 [−0.08, +0.03]' at screen 0.79792, first 4 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'host' at screen 0.00833, first 3 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '+0.01 [−0.00, +0.02]' at screen 0.79792, first 3 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'stalls' at screen 0.00833, first 2 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−0.82 [−2.49, +0.85]' at screen 0.79792, first 2 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'residual' at screen 0.00833, first 1 left font 'sans-serif,11.5' tc rgb '#1c2126'
set label '−1.22 [−2.08, −0.37]' at screen 0.79792, first 1 left font 'sans-serif,12' tc rgb '#1c2126'
set label 'timed round, and what adds up to it' at screen 0.00833, first 0 left font 'sans-serif:Bold,11.5' tc rgb '#1c2126'
set label '−1.65 [−3.64, +0.34]' at screen 0.79792, first 0 left font 'sans-serif:Bold,12' tc rgb '#1c2126'
plot 'time_differences.dat' index 1 using ($5>0&&$3==$3?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#009e73' title 'q8-again less q8', \
  'time_differences.dat' index 1 using ($5==2&&$3==$3?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#009e73' title 'q8-again less q8', \
  'time_differences.dat' index 1 using ($5<2?$2:NaN):1 with points pt 7 ps 0.6 lc rgb '#009e73' title 'q8-again less q8', \
  'time_differences.dat' index 1 using ($5==2?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#009e73' title 'q8-again less q8', \
  'time_differences.dat' index 1 using ($5==2?$6:NaN):1 with points pt 12 ps 1.3 lw 1.6 lc rgb '#1c2126' title 'rows, idle and host added up'

unset multiplot
unset output
