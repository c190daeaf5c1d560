// The tests' own reader must see what it is there to see.
#include "markup.h"

#include <gtest/gtest.h>

namespace tare::reports::markup {
namespace {

TEST(Markup, TakesWhatIsWellFormed) {
  const Page page = read("<!DOCTYPE html><p class=\"a\">x &lt; y<br></p><svg><path d='M0'/></svg>");
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(page.text, "x < y");
  EXPECT_EQ(page.elements.size(), 4U);
}

TEST(Markup, SeesEveryFault) {
  for (const char* broken : {"<p>", "<p></b>", "</p>", "<p class=a></p>", "<p class></p>", "a & b",
                             "<p a='1' a='2'></p>", "<p title='&x'></p>", "1 < 2", "<p title='a></p>"})
    EXPECT_NE(read(broken).fault, "") << broken;
}

}  // namespace
}  // namespace tare::reports::markup
