;;; edn-bridge-edn-tests.el --- Tests of the reader and printer  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'ert)
(require 'edn-bridge-edn)

(defconst edn-bridge-edn-tests-readable
  '(("nil" nil)
    ("true" t)
    ("false" :false)
    ("{}" nil)
    ("[]" [])
    ("()" [])
    ("#{}" [])
    ("{:a 1}" (:a 1))
    ("{:a {:b {:c []}}}" (:a (:b (:c []))))
    ("{:a nil, :b false, :c {}, :d []}" (:a nil :b :false :c nil :d []))
    ("{:a nil :b false :c {} :d [] :e true}" (:a nil :b :false :c nil :d [] :e t))
    ("[true false nil]" [t :false nil])
    ("[true\"true\"false]" [t "true" :false])
    ("{:a\ntrue :b\r\nfalse\n:c\ttrue\f}" (:a t :b :false :c t))
    ("{:true true :false false :untrue x}" (:true t :false :false :untrue x))
    ("{\"{true}\" \"false\"}" ("{true}" "false"))
    ("#{1 2}" [1 2])
    ("[#{1} {:a #{}}]" [[1] (:a [])])
    ("(1 (2) [3])" [1 [2] [3]])
    ("{:psi.agent-session/session-id \"x\"}" (:psi.agent-session/session-id "x"))
    ("[1 -1 +1 0 1N 123456789012345678901234567890]"
     [1 -1 1 0 1 123456789012345678901234567890])
    ("[1.5 -0.5 1e3 1.5M 2M]" [1.5 -0.5 1000.0 1.5 2.0])
    ("[\\a \\newline \\space \\u00e9 \\( \\\\]" ["a" "\n" " " "é" "(" "\\"])
    ("#inst \"2026-01-01\"" (:edn/tag inst :edn/value "2026-01-01"))
    ("[1 #_ 2 3 #_#_ 4 5]" [1 3])
    ("[1 ; two\n 3]" [1 3])
    ("[1,2,,3]" [1 2 3])
    ("\"\"" "")
    ("\"a\\nb\\tc\\\"d\\\\\"" "a\nb\tc\"d\\")
    ("\"\\\\\"" "\\")
    ("[\"\\\\\" {:a \"}\"}]" ["\\" (:a "}")])
    ("\"\\u00e9\"" "é")
    ("#{\"\\ud83c\\udf89\"}" ["🎉"])
    ("{:a \"\\uD83C\\uDF89\" :b \"\\ud83c\\udf89\"}" (:a "🎉" :b "🎉"))
    ("[\"Grüße, 世界 🎉\" sym a.b/c? foo' :ready?]"
     ["Grüße, 世界 🎉" sym a.b/c? foo\' :ready?])
    (" \r\n[1]\r\n" [1]))
  "Texts and what they read as.")

(ert-deftest edn-bridge-edn-reads ()
  (pcase-dolist (`(,text ,value) edn-bridge-edn-tests-readable)
    (ert-info (text :prefix "text: ")
      (should (equal (edn-bridge-edn-read-string text) value)))))

(ert-deftest edn-bridge-edn-reads-alike-fast-and-slowly ()
  (pcase-dolist (`(,text ,_) edn-bridge-edn-tests-readable)
    (let ((bytes (encode-coding-string text 'utf-8-unix)))
      (ert-info (text :prefix "text: ")
        (should (equal (edn-bridge-edn--read-slowly bytes)
                       (edn-bridge-edn-read-bytes bytes)))))))

(ert-deftest edn-bridge-edn-leaves-the-bytes-alone ()
  (let* ((bytes (encode-coding-string "{:a [true false {:b \"ü{}\"}]}" 'utf-8))
         (copy (copy-sequence bytes)))
    (edn-bridge-edn-read-bytes bytes)
    (should (equal bytes copy))))

(ert-deftest edn-bridge-edn-reads-long-lines-as-short-ones ()
  (dolist (text '("Grüße 世界 🎉 \"quoted\" \\\\\" {true} \n" "plain {false}"
                  "\\" "\\\"" "\"\"" "\\\\\""))
    (let* ((long (mapconcat #'identity (make-list 20000 text) ""))
           (value (list :a long :b [t :false]))
           (print-escape-newlines t)
           (map (edn-bridge-edn-print-string value))
           (plist (format "(:a %S :b [t :false])" long)))
      (ert-info (text :prefix "text: ")
        ;; A failure should not print megabytes.
        (let ((same (list (equal (edn-bridge-edn-read-string map) value)
                          (equal (edn-bridge-edn-read-plist-bytes
                                  (encode-coding-string plist 'utf-8-unix))
                                 value))))
          (should (equal same '(t t)))))))
  ;; What is no UTF-8 is kept as the bytes that it is, in both.
  (let ((last (lambda (text)
                (substring (plist-get (edn-bridge-edn-read-bytes text) :a)
                           -1))))
    (should (equal (funcall last (concat "{:a \"" (make-string 40000 ?x)
                                         "\303\"}"))
                   (funcall last "{:a \"x\303\"}")))))

(ert-deftest edn-bridge-edn-refuses ()
  (dolist (text '("" " " "{" "[1" "\"abc" "\"abc\\" "#{} {:a}" "}" "[1)" "1 2"
                  "{:a 1} {:b 2}" "\\" "#" "##Foo" "\"\\q\" #{}" "[1 #_]"
                  "#_ 1" "1x #{}" "#1=(#1#)" "(1 . 2)]" ":a \"b"))
    (ert-info (text :prefix "text: ")
      (should-error (edn-bridge-edn-read-string text)
                    :type 'edn-bridge-edn-error))))

(ert-deftest edn-bridge-edn-bounds-the-depth ()
  (let ((deep (lambda (n) (concat "#{}" (make-string n ?\[) (make-string n ?\])))))
    (should (edn-bridge-edn-read-string (substring (funcall deep 256) 3)))
    (should (edn-bridge-edn--read-slowly (substring (funcall deep 256) 3)))
    (should-error (edn-bridge-edn--read-slowly (substring (funcall deep 5000) 3))
                  :type 'edn-bridge-edn-error)))

(ert-deftest edn-bridge-edn-reads-plist-frames ()
  (should (equal (edn-bridge-edn-read-plist-bytes
                  (encode-coding-string
                   "(:a t :b :false :c nil :d [1 \"é{}\"])\r" 'utf-8))
                 '(:a t :b :false :c nil :d [1 "é{}"])))
  (dolist (text '("(:a" "(:a 1) (:b 2)" ")" "" "#1=(:a #1#)"))
    (should-error (edn-bridge-edn-read-plist-bytes text)
                  :type 'edn-bridge-edn-error)))

(ert-deftest edn-bridge-edn-prints ()
  (pcase-dolist
      (`(,value ,text)
       `((nil "nil") (t "true") (:false "false") ([] "[]")
         (,edn-bridge-edn-empty-map "{}")
         ((:a 1 :b [t :false nil]) "{:a 1 :b [true false nil]}")
         ((:a (:b (:c "d"))) "{:a {:b {:c \"d\"}}}")
         ([1 -2 1.5 x/y :k/w] "[1 -2 1.5 x/y :k/w]")
         (1.0e+INF "##Inf")
         ("a\nb\t\"c\"\\d\r\e" "\"a\\nb\\t\\\"c\\\"\\\\d\\r\\u001b\"")
         ("Grüße 🎉" "\"Grüße 🎉\"")
         ("bad \200 byte" "\"bad \N{U+FFFD} byte\"")))
    (ert-info (text :prefix "text: ")
      (should (equal (edn-bridge-edn-print-string value) text)))))

(ert-deftest edn-bridge-edn-refuses-to-print-what-is-no-edn ()
  (dolist (value (list '(:a) '(1 . 2) (current-buffer)))
    (should-error (edn-bridge-edn-print-string value)
                  :type 'wrong-type-argument)))

(ert-deftest edn-bridge-edn-reads-what-it-prints ()
  (dolist (value (list "\0\1\n\"\\\e" [1 [2 (:a "b")]] '(:a (:b [])) 1.25
                       (apply #'string (number-sequence 0 300))))
    (should (equal (edn-bridge-edn-read-string
                    (edn-bridge-edn-print-string value))
                   value))))

(ert-deftest edn-bridge-edn-lays-out ()
  (with-temp-buffer
    (edn-bridge-edn-pretty-print
     '(:short [1 2] :long ["aaaaaaaaaaaaaaaa" "bbbbbbbbbbbbbbbb" (:c 1)]) 30)
    (should (equal (buffer-string)
                   "{:short [1 2]
 :long [\"aaaaaaaaaaaaaaaa\"
        \"bbbbbbbbbbbbbbbb\"
        {:c 1}]}"))))

(provide 'edn-bridge-edn-tests)

;;; edn-bridge-edn-tests.el ends here
