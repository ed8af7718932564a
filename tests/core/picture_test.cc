#include "core/picture.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(Picture, DrawsTimeAcrossAndAddressesUp) {
  const std::vector<PictureItem> items = {{0, 8, 0, 1024}, {0, 4, 1024, 1024}, {4, 6, 1024, 512}};
  EXPECT_EQ(picture(items, 8, 4),
            "    1.50 KiB |bbbb....\n"
            "    1.00 KiB |bbbbcc..\n"
            "       512 B |aaaaaaaa\n"
            "         0 B |aaaaaaaa\n"
            "             +--------\n"
            "              0      8\n");
}

TEST(Picture, TellsSharingFromConflict) {
  const std::vector<PictureItem> in_turn = {{0, 4, 0, 4}, {4, 8, 0, 4}};
  EXPECT_NE(picture(in_turn, 1, 1).find("|#"), std::string::npos);
  const std::vector<PictureItem> at_once = {{0, 5, 0, 4}, {4, 8, 0, 4}};
  EXPECT_NE(picture(at_once, 1, 1).find("|!"), std::string::npos);
  EXPECT_NE(picture(at_once, 8, 1).find("|aaaa!bbb"), std::string::npos);
}

TEST(Picture, FillsCellsNarrowerThanAStep) {
  const std::vector<PictureItem> items = {{0, 2, 0, 1}, {2, 3, 1, 1}};
  EXPECT_NE(picture(items, 9, 4)
                .find("|......bbb\n         1 B |......bbb\n         0 B |aaaaaa...\n         0 B |aaaaaa..."),
            std::string::npos)
      << picture(items, 9, 4);
}

TEST(Picture, NamedLettersAndOwners) {
  // Two stays of one owner, drawn alike, and another letter of the same owner on the same bytes: no conflict.
  const std::vector<PictureItem> items = {{.begin = 0, .end = 2, .bytes = 4, .letter = 2, .owner = 7},
                                          {.begin = 1, .end = 4, .bytes = 4, .letter = 2, .owner = 7},
                                          {.begin = 3, .end = 6, .bytes = 4, .letter = 3, .owner = 7},
                                          {.begin = 5, .end = 8, .bytes = 4, .letter = 4, .owner = 8}};
  EXPECT_NE(picture(items, 8, 1).find("|ccc#d!ee"), std::string::npos) << picture(items, 8, 1);
  EXPECT_EQ(picture_letters()[2], 'c');
}

TEST(Picture, ShowsDeviceResidenciesOnly) {
  Schedule schedule;
  schedule.residencies = {{.bytes = 8, .acquire = 0, .release = 2},
                          {.space = MemorySpace::host, .bytes = 8, .acquire = 0, .release = 4},
                          {.bytes = 8, .acquire = 2, .release = 4}};
  Layout layout;
  layout.offset_of = {0, 0, 0};
  EXPECT_NE(picture(schedule, layout, 4, 1).find("|aabb"), std::string::npos);
}

TEST(Picture, OfNothingIsFree) {
  EXPECT_NE(picture(std::vector<PictureItem>{}, 3, 1).find("|..."), std::string::npos);
}

}  // namespace
}  // namespace tidemark
