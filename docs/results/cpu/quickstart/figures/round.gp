# Draws round.svg from round.dat: cd figures && gnuplot round.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,999 dynamic font 'sans-serif,13' name 'round' linewidth 1
set output 'round.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.34375
set rmargin at screen 0.98333
set tmargin at screen 0.96797
set bmargin at screen 0.71271
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q8' at screen 0.00833,0.98198 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'prompt 1' at screen 0.98333,0.98198 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0:127.26]
set xtics 20 format '%.0f'
set yrange [-0.5:14.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set style fill solid 1.0 noborder
set label 'embed  embed_tokens.weight' at screen 0.00833, first 14 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  layers.*.input_layernorm.weight' at screen 0.00833, first 13 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.li…_attn.in_proj_qkv.weight' at screen 0.00833, first 12 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'gdn  layers.*.linear_attn' at screen 0.00833, first 11 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.linear_attn.out_proj.weight' at screen 0.00833, first 10 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  layers.*.post…tention_layernorm.weight' at screen 0.00833, first 9 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8 + activation…s.*.mlp.gate_proj.weight' at screen 0.00833, first 8 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.mlp.down_proj.weight' at screen 0.00833, first 7 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.self_attn.q_proj.weight' at screen 0.00833, first 6 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'attention  layers.*.self_attn' at screen 0.00833, first 5 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.self_attn.o_proj.weight' at screen 0.00833, first 4 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  norm.weight' at screen 0.00833, first 3 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  lm_head.weight' at screen 0.00833, first 2 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'argmax  logits' at screen 0.00833, first 1 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'gdn_commit  layers.*.linear_attn' at screen 0.00833, first 0 left font 'sans-serif,11' tc rgb '#1c2126'
plot 'round.dat' index 0 using 2:(14):1:3:(13.88):(14.12) with boxxyerror lc rgb '#8b959e' title 'embed  embed_tokens.weight', \
  'round.dat' index 0 using 2:(14):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(13.62):(14.38) with boxxyerror lc rgb '#8b959e' title 'embed  embed_tokens.weight', \
  'round.dat' index 1 using 2:(13):1:3:(12.88):(13.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.input_layernorm.weight', \
  'round.dat' index 1 using 2:(13):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(12.62):(13.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.input_layernorm.weight', \
  'round.dat' index 2 using 2:(12):1:3:(11.88):(12.12) with boxxyerror lc rgb '#009e73' title 'product q8  layers.*.linear_attn.in_proj_qkv.weight', \
  'round.dat' index 2 using 2:(12):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(11.62):(12.38) with boxxyerror lc rgb '#009e73' title 'product q8  layers.*.linear_attn.in_proj_qkv.weight', \
  'round.dat' index 3 using 2:(11):1:3:(10.88):(11.12) with boxxyerror lc rgb '#d55e00' title 'gdn  layers.*.linear_attn', \
  'round.dat' index 3 using 2:(11):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(10.62):(11.38) with boxxyerror lc rgb '#d55e00' title 'gdn  layers.*.linear_attn', \
  'round.dat' index 4 using 2:(10):1:3:(9.88):(10.12) with boxxyerror lc rgb '#a08300' title 'product q8  layers.*.linear_attn.out_proj.weight', \
  'round.dat' index 4 using 2:(10):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(9.62):(10.38) with boxxyerror lc rgb '#a08300' title 'product q8  layers.*.linear_attn.out_proj.weight', \
  'round.dat' index 5 using 2:(9):1:3:(8.88):(9.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.post_attention_layernorm.weight', \
  'round.dat' index 5 using 2:(9):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(8.62):(9.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.post_attention_layernorm.weight', \
  'round.dat' index 6 using 2:(8):1:3:(7.88):(8.12) with boxxyerror lc rgb '#0072b2' title 'product q8 + activation  layers.*.mlp.gate_proj.weight', \
  'round.dat' index 6 using 2:(8):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(7.62):(8.38) with boxxyerror lc rgb '#0072b2' title 'product q8 + activation  layers.*.mlp.gate_proj.weight', \
  'round.dat' index 7 using 2:(7):1:3:(6.88):(7.12) with boxxyerror lc rgb '#cc79a7' title 'product q8  layers.*.mlp.down_proj.weight', \
  'round.dat' index 7 using 2:(7):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(6.62):(7.38) with boxxyerror lc rgb '#cc79a7' title 'product q8  layers.*.mlp.down_proj.weight', \
  'round.dat' index 8 using 2:(6):1:3:(5.88):(6.12) with boxxyerror lc rgb '#6b4fa0' title 'product q8  layers.*.self_attn.q_proj.weight', \
  'round.dat' index 8 using 2:(6):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(5.62):(6.38) with boxxyerror lc rgb '#6b4fa0' title 'product q8  layers.*.self_attn.q_proj.weight', \
  'round.dat' index 9 using 2:(5):1:3:(4.88):(5.12) with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'round.dat' index 9 using 2:(5):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(4.62):(5.38) with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'round.dat' index 10 using 2:(4):1:3:(3.88):(4.12) with boxxyerror lc rgb '#8b959e' title 'product q8  layers.*.self_attn.o_proj.weight', \
  'round.dat' index 10 using 2:(4):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(3.62):(4.38) with boxxyerror lc rgb '#8b959e' title 'product q8  layers.*.self_attn.o_proj.weight', \
  'round.dat' index 11 using 2:(3):1:3:(2.88):(3.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  norm.weight', \
  'round.dat' index 11 using 2:(3):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(2.62):(3.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  norm.weight', \
  'round.dat' index 12 using 2:(2):1:3:(1.88):(2.12) with boxxyerror lc rgb '#56b4e9' title 'product q8  lm_head.weight', \
  'round.dat' index 12 using 2:(2):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(1.62):(2.38) with boxxyerror lc rgb '#56b4e9' title 'product q8  lm_head.weight', \
  'round.dat' index 13 using 2:(1):1:3:(0.88):(1.12) with boxxyerror lc rgb '#8b959e' title 'argmax  logits', \
  'round.dat' index 13 using 2:(1):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(0.62):(1.38) with boxxyerror lc rgb '#8b959e' title 'argmax  logits', \
  'round.dat' index 14 using 2:(0):1:3:(-0.12):(0.12) with boxxyerror lc rgb '#d55e00' title 'gdn_commit  layers.*.linear_attn', \
  'round.dat' index 14 using 2:(0):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(-0.38):(0.38) with boxxyerror lc rgb '#d55e00' title 'gdn_commit  layers.*.linear_attn'

reset
set encoding utf8
set minussign
set lmargin at screen 0.34375
set rmargin at screen 0.98333
set tmargin at screen 0.64064
set bmargin at screen 0.38539
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q4' at screen 0.00833,0.65465 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'prompt 1' at screen 0.98333,0.65465 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0:127.26]
set xtics 20 format '%.0f'
set yrange [-0.5:14.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set style fill solid 1.0 noborder
set label 'embed  embed_tokens.weight' at screen 0.00833, first 14 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  layers.*.input_layernorm.weight' at screen 0.00833, first 13 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4  layers.*.li…_attn.in_proj_qkv.weight' at screen 0.00833, first 12 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'gdn  layers.*.linear_attn' at screen 0.00833, first 11 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4  layers.*.linear_attn.out_proj.weight' at screen 0.00833, first 10 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  layers.*.post…tention_layernorm.weight' at screen 0.00833, first 9 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4 + activation…s.*.mlp.gate_proj.weight' at screen 0.00833, first 8 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4  layers.*.mlp.down_proj.weight' at screen 0.00833, first 7 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4  layers.*.self_attn.q_proj.weight' at screen 0.00833, first 6 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'attention  layers.*.self_attn' at screen 0.00833, first 5 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4  layers.*.self_attn.o_proj.weight' at screen 0.00833, first 4 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  norm.weight' at screen 0.00833, first 3 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q4  lm_head.weight' at screen 0.00833, first 2 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'argmax  logits' at screen 0.00833, first 1 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'gdn_commit  layers.*.linear_attn' at screen 0.00833, first 0 left font 'sans-serif,11' tc rgb '#1c2126'
plot 'round.dat' index 15 using 2:(14):1:3:(13.88):(14.12) with boxxyerror lc rgb '#8b959e' title 'embed  embed_tokens.weight', \
  'round.dat' index 15 using 2:(14):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(13.62):(14.38) with boxxyerror lc rgb '#8b959e' title 'embed  embed_tokens.weight', \
  'round.dat' index 16 using 2:(13):1:3:(12.88):(13.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.input_layernorm.weight', \
  'round.dat' index 16 using 2:(13):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(12.62):(13.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.input_layernorm.weight', \
  'round.dat' index 17 using 2:(12):1:3:(11.88):(12.12) with boxxyerror lc rgb '#009e73' title 'product q4  layers.*.linear_attn.in_proj_qkv.weight', \
  'round.dat' index 17 using 2:(12):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(11.62):(12.38) with boxxyerror lc rgb '#009e73' title 'product q4  layers.*.linear_attn.in_proj_qkv.weight', \
  'round.dat' index 18 using 2:(11):1:3:(10.88):(11.12) with boxxyerror lc rgb '#d55e00' title 'gdn  layers.*.linear_attn', \
  'round.dat' index 18 using 2:(11):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(10.62):(11.38) with boxxyerror lc rgb '#d55e00' title 'gdn  layers.*.linear_attn', \
  'round.dat' index 19 using 2:(10):1:3:(9.88):(10.12) with boxxyerror lc rgb '#a08300' title 'product q4  layers.*.linear_attn.out_proj.weight', \
  'round.dat' index 19 using 2:(10):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(9.62):(10.38) with boxxyerror lc rgb '#a08300' title 'product q4  layers.*.linear_attn.out_proj.weight', \
  'round.dat' index 20 using 2:(9):1:3:(8.88):(9.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.post_attention_layernorm.weight', \
  'round.dat' index 20 using 2:(9):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(8.62):(9.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.post_attention_layernorm.weight', \
  'round.dat' index 21 using 2:(8):1:3:(7.88):(8.12) with boxxyerror lc rgb '#0072b2' title 'product q4 + activation  layers.*.mlp.gate_proj.weight', \
  'round.dat' index 21 using 2:(8):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(7.62):(8.38) with boxxyerror lc rgb '#0072b2' title 'product q4 + activation  layers.*.mlp.gate_proj.weight', \
  'round.dat' index 22 using 2:(7):1:3:(6.88):(7.12) with boxxyerror lc rgb '#cc79a7' title 'product q4  layers.*.mlp.down_proj.weight', \
  'round.dat' index 22 using 2:(7):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(6.62):(7.38) with boxxyerror lc rgb '#cc79a7' title 'product q4  layers.*.mlp.down_proj.weight', \
  'round.dat' index 23 using 2:(6):1:3:(5.88):(6.12) with boxxyerror lc rgb '#6b4fa0' title 'product q4  layers.*.self_attn.q_proj.weight', \
  'round.dat' index 23 using 2:(6):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(5.62):(6.38) with boxxyerror lc rgb '#6b4fa0' title 'product q4  layers.*.self_attn.q_proj.weight', \
  'round.dat' index 24 using 2:(5):1:3:(4.88):(5.12) with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'round.dat' index 24 using 2:(5):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(4.62):(5.38) with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'round.dat' index 25 using 2:(4):1:3:(3.88):(4.12) with boxxyerror lc rgb '#8b959e' title 'product q4  layers.*.self_attn.o_proj.weight', \
  'round.dat' index 25 using 2:(4):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(3.62):(4.38) with boxxyerror lc rgb '#8b959e' title 'product q4  layers.*.self_attn.o_proj.weight', \
  'round.dat' index 26 using 2:(3):1:3:(2.88):(3.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  norm.weight', \
  'round.dat' index 26 using 2:(3):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(2.62):(3.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  norm.weight', \
  'round.dat' index 27 using 2:(2):1:3:(1.88):(2.12) with boxxyerror lc rgb '#56b4e9' title 'product q4  lm_head.weight', \
  'round.dat' index 27 using 2:(2):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(1.62):(2.38) with boxxyerror lc rgb '#56b4e9' title 'product q4  lm_head.weight', \
  'round.dat' index 28 using 2:(1):1:3:(0.88):(1.12) with boxxyerror lc rgb '#8b959e' title 'argmax  logits', \
  'round.dat' index 28 using 2:(1):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(0.62):(1.38) with boxxyerror lc rgb '#8b959e' title 'argmax  logits', \
  'round.dat' index 29 using 2:(0):1:3:(-0.12):(0.12) with boxxyerror lc rgb '#d55e00' title 'gdn_commit  layers.*.linear_attn', \
  'round.dat' index 29 using 2:(0):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(-0.38):(0.38) with boxxyerror lc rgb '#d55e00' title 'gdn_commit  layers.*.linear_attn'

reset
set encoding utf8
set minussign
set lmargin at screen 0.34375
set rmargin at screen 0.98333
set tmargin at screen 0.31331
set bmargin at screen 0.05806
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q8-again' at screen 0.00833,0.32733 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'prompt 1' at screen 0.98333,0.32733 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0:127.26]
set xtics 20 format '%.0f'
set yrange [-0.5:14.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set style fill solid 1.0 noborder
set xlabel 'microseconds' tc rgb '#5b6670'
set label 'embed  embed_tokens.weight' at screen 0.00833, first 14 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  layers.*.input_layernorm.weight' at screen 0.00833, first 13 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.li…_attn.in_proj_qkv.weight' at screen 0.00833, first 12 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'gdn  layers.*.linear_attn' at screen 0.00833, first 11 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.linear_attn.out_proj.weight' at screen 0.00833, first 10 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  layers.*.post…tention_layernorm.weight' at screen 0.00833, first 9 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8 + activation…s.*.mlp.gate_proj.weight' at screen 0.00833, first 8 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.mlp.down_proj.weight' at screen 0.00833, first 7 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.self_attn.q_proj.weight' at screen 0.00833, first 6 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'attention  layers.*.self_attn' at screen 0.00833, first 5 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  layers.*.self_attn.o_proj.weight' at screen 0.00833, first 4 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'rms_norm  norm.weight' at screen 0.00833, first 3 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'product q8  lm_head.weight' at screen 0.00833, first 2 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'argmax  logits' at screen 0.00833, first 1 left font 'sans-serif,11' tc rgb '#1c2126'
set label 'gdn_commit  layers.*.linear_attn' at screen 0.00833, first 0 left font 'sans-serif,11' tc rgb '#1c2126'
plot 'round.dat' index 30 using 2:(14):1:3:(13.88):(14.12) with boxxyerror lc rgb '#8b959e' title 'embed  embed_tokens.weight', \
  'round.dat' index 30 using 2:(14):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(13.62):(14.38) with boxxyerror lc rgb '#8b959e' title 'embed  embed_tokens.weight', \
  'round.dat' index 31 using 2:(13):1:3:(12.88):(13.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.input_layernorm.weight', \
  'round.dat' index 31 using 2:(13):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(12.62):(13.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.input_layernorm.weight', \
  'round.dat' index 32 using 2:(12):1:3:(11.88):(12.12) with boxxyerror lc rgb '#009e73' title 'product q8  layers.*.linear_attn.in_proj_qkv.weight', \
  'round.dat' index 32 using 2:(12):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(11.62):(12.38) with boxxyerror lc rgb '#009e73' title 'product q8  layers.*.linear_attn.in_proj_qkv.weight', \
  'round.dat' index 33 using 2:(11):1:3:(10.88):(11.12) with boxxyerror lc rgb '#d55e00' title 'gdn  layers.*.linear_attn', \
  'round.dat' index 33 using 2:(11):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(10.62):(11.38) with boxxyerror lc rgb '#d55e00' title 'gdn  layers.*.linear_attn', \
  'round.dat' index 34 using 2:(10):1:3:(9.88):(10.12) with boxxyerror lc rgb '#a08300' title 'product q8  layers.*.linear_attn.out_proj.weight', \
  'round.dat' index 34 using 2:(10):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(9.62):(10.38) with boxxyerror lc rgb '#a08300' title 'product q8  layers.*.linear_attn.out_proj.weight', \
  'round.dat' index 35 using 2:(9):1:3:(8.88):(9.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.post_attention_layernorm.weight', \
  'round.dat' index 35 using 2:(9):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(8.62):(9.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  layers.*.post_attention_layernorm.weight', \
  'round.dat' index 36 using 2:(8):1:3:(7.88):(8.12) with boxxyerror lc rgb '#0072b2' title 'product q8 + activation  layers.*.mlp.gate_proj.weight', \
  'round.dat' index 36 using 2:(8):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(7.62):(8.38) with boxxyerror lc rgb '#0072b2' title 'product q8 + activation  layers.*.mlp.gate_proj.weight', \
  'round.dat' index 37 using 2:(7):1:3:(6.88):(7.12) with boxxyerror lc rgb '#cc79a7' title 'product q8  layers.*.mlp.down_proj.weight', \
  'round.dat' index 37 using 2:(7):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(6.62):(7.38) with boxxyerror lc rgb '#cc79a7' title 'product q8  layers.*.mlp.down_proj.weight', \
  'round.dat' index 38 using 2:(6):1:3:(5.88):(6.12) with boxxyerror lc rgb '#6b4fa0' title 'product q8  layers.*.self_attn.q_proj.weight', \
  'round.dat' index 38 using 2:(6):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(5.62):(6.38) with boxxyerror lc rgb '#6b4fa0' title 'product q8  layers.*.self_attn.q_proj.weight', \
  'round.dat' index 39 using 2:(5):1:3:(4.88):(5.12) with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'round.dat' index 39 using 2:(5):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(4.62):(5.38) with boxxyerror lc rgb '#7d4b32' title 'attention  layers.*.self_attn', \
  'round.dat' index 40 using 2:(4):1:3:(3.88):(4.12) with boxxyerror lc rgb '#8b959e' title 'product q8  layers.*.self_attn.o_proj.weight', \
  'round.dat' index 40 using 2:(4):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(3.62):(4.38) with boxxyerror lc rgb '#8b959e' title 'product q8  layers.*.self_attn.o_proj.weight', \
  'round.dat' index 41 using 2:(3):1:3:(2.88):(3.12) with boxxyerror lc rgb '#8b959e' title 'rms_norm  norm.weight', \
  'round.dat' index 41 using 2:(3):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(2.62):(3.38) with boxxyerror lc rgb '#8b959e' title 'rms_norm  norm.weight', \
  'round.dat' index 42 using 2:(2):1:3:(1.88):(2.12) with boxxyerror lc rgb '#56b4e9' title 'product q8  lm_head.weight', \
  'round.dat' index 42 using 2:(2):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(1.62):(2.38) with boxxyerror lc rgb '#56b4e9' title 'product q8  lm_head.weight', \
  'round.dat' index 43 using 2:(1):1:3:(0.88):(1.12) with boxxyerror lc rgb '#8b959e' title 'argmax  logits', \
  'round.dat' index 43 using 2:(1):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(0.62):(1.38) with boxxyerror lc rgb '#8b959e' title 'argmax  logits', \
  'round.dat' index 44 using 2:(0):1:3:(-0.12):(0.12) with boxxyerror lc rgb '#d55e00' title 'gdn_commit  layers.*.linear_attn', \
  'round.dat' index 44 using 2:(0):2:($3-$2<0.2072638436482085?$2+0.2072638436482085:$3):(-0.38):(0.38) with boxxyerror lc rgb '#d55e00' title 'gdn_commit  layers.*.linear_attn'

unset multiplot
unset output
