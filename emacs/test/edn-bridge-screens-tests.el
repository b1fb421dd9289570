;;; edn-bridge-screens-tests.el --- What small terminals show  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The menus, the help and the header line on terminals of 80×24, 60×20 and
;; 33 columns, compared with the files in screens/.  UPDATE_SCREENS=1 writes
;; these; look at the difference like code.

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-terminal-tests)

(defconst edn-bridge-screens-tests-sizes '((80 . 24) (60 . 20) (33 . 24))
  "Columns and rows of the terminals.")

(defun edn-bridge-screens-tests-part (from)
  "Return the lines of the screen from the one that FROM matches to the last.
Lines without letters and the space between columns, which versions of
transient draw in their own way, are left out.  So is the message of the
test's Emacs that the session is there, which may come at any time."
  (let ((lines (split-string (edn-bridge-terminal-tests-see from) "\n")))
    (while (not (string-match-p from (car lines)))
      (pop lines))
    (concat (mapconcat (lambda (line)
                         (replace-regexp-in-string "\\( \\) +" "  "
                                                   (string-trim-right line)))
                       (seq-filter (lambda (line)
                                     (and (string-match-p "[a-z]" line)
                                          (not (string-prefix-p
                                                "The session is here" line))))
                                   lines)
                       "\n")
            "\n")))

(defun edn-bridge-screens-tests-compare (name from)
  "Wait until the screen from FROM on is the golden screen NAME of this size."
  (let* ((file (expand-file-name
                (format "screens/%s-%dx%d.txt" name
                        (car edn-bridge-terminal-tests-size)
                        (cdr edn-bridge-terminal-tests-size))
                edn-bridge-test-directory))
         (golden (and (not (getenv "UPDATE_SCREENS"))
                      (with-temp-buffer
                        (insert-file-contents file)
                        (buffer-string))))
         (deadline (+ (float-time) (if golden 20 2)))
         (text nil))
    (while (and (not (equal golden
                            (setq text (edn-bridge-screens-tests-part from))))
                (< (float-time) deadline))
      (sleep-for 0.05))
    (dolist (line (split-string text "\n"))
      ;; What Emacs and transient put where a line is cut or goes on.
      (should-not (string-match-p "[$\\]$" line)))
    (if golden
        (should (equal text golden))
      (make-directory (file-name-directory file) t)
      (write-region text nil file nil 'quiet))))

(defun edn-bridge-screens-tests-labels (groups)
  "Check that the screen has the labels of GROUPS whole."
  (let ((screen (edn-bridge-terminal-tests-screen)))
    (pcase-dolist (`(,_title ,_key . ,rows) groups)
      (pcase-dolist (`(,key ,_command ,label) rows)
        (ert-info (label)
          (should (string-match-p
                   (format "\\(?:^\\| \\)%s %s\\(?: \\|$\\)" (regexp-quote key)
                           (regexp-quote label))
                   screen)))))))

(ert-deftest edn-bridge-screens-menu-fits-small-terminals ()
  (dolist (edn-bridge-terminal-tests-size edn-bridge-screens-tests-sizes)
    (edn-bridge-terminal-tests-with-emacs "keys.edn"
      (let* ((narrow (< (car edn-bridge-terminal-tests-size) 60))
             (top (if narrow "^Answer and look" "^Talk")))
        (edn-bridge-terminal-tests-do '("C-c" "?"))
        (edn-bridge-screens-tests-compare
         "menu" top)
        (edn-bridge-screens-tests-labels
         (seq-remove (lambda (group)
                       (if narrow (nth 1 group) (stringp (nth 1 group))))
                     edn-bridge--menu))
        (edn-bridge-terminal-tests-do '("C-g"))
        (dolist (group edn-bridge--menu)
          (when (or (stringp (nth 1 group)) (and narrow (nth 1 group)))
            (let ((first (nth 2 group))
                  (key (car (ensure-list (nth 1 group)))))
              (edn-bridge-terminal-tests-do '("C-c" "?") top (list key))
              (edn-bridge-screens-tests-compare
               (concat "menu-" key)
               (format "^ %s %s" (nth 0 first) (nth 2 first)))
              (edn-bridge-screens-tests-labels (list group))
              ;; Back on the first level; two at once may count as one.
              (edn-bridge-terminal-tests-do '("C-g") top '("C-g")))))))))

;;;; The header line

(defun edn-bridge-screens-tests-header (width)
  "Return the header line of this chat in a window of WIDTH columns."
  (cl-letf (((symbol-function 'window-width) (lambda (&rest _) width)))
    (string-replace "%%" "%" (substring-no-properties
                              (edn-bridge-chat--header-line)))))

(ert-deftest edn-bridge-header-names-its-values-at-every-width ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/updated" :session-id "s1" :is-streaming :false
     :header-model-label "claude-sonnet-4 · high" :model-id "claude-sonnet-4"
     :thinking-level :high :mode :accept-edits :session-name "Refactor the parser"
     :elsewhere t :host "desk")
    (pcase-dolist
        (`(,width ,line)
         '((120 " ready · idle · on desk · model claude-sonnet-4 · thinking high · mode accept-edits · Refactor the parser")
           (80 " ready · idle · on desk · model claude-sonnet-4 · mode accept-edits · Refactor …")
           (50 " ready · idle · on desk · mode accept-edits")
           (33 " ready · idle · mode accept-edits")))
      (ert-info ((format "%d columns" width))
        (should (equal (edn-bridge-screens-tests-header width) line))))
    ;; Questions for the user stay.
    (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
    (should (string-prefix-p " ready · asks"
                             (edn-bridge-screens-tests-header 20)))))

(ert-deftest edn-bridge-header-fields-have-a-tooltip-and-a-click ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :model-id "m" :mode :ask :session-name "Name")
    (let ((line (edn-bridge-chat--header-line)))
      (dolist (text '("idle" "m" "ask" "Name"))
        (let ((at (string-match (concat "\\_<" text "\\_>") line)))
          (ert-info (text)
            (should (get-text-property at 'help-echo line))
            (should (lookup-key (get-text-property at 'keymap line)
                                [header-line mouse-1])))))
      (pcase-dolist (`(,_function ,_rank ,command ,_help)
                     edn-bridge-chat--header-fields)
        (when command
          (should (commandp command)))))))

(ert-deftest edn-bridge-footer-leaves-the-mode-to-the-header ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "footer/updated" :session-id "s1"
                           :path-line "/x" :status-line "mode: ask · sandbox: off")
    (should (string-search "\nsandbox: off" (edn-bridge-transcript-footer)))
    (should-not (string-search "mode:" (edn-bridge-transcript-footer)))))

(ert-deftest edn-bridge-heading-stands-once-a-turn-over-rows-and-text ()
  (edn-bridge-test-with-chat (conn _sent)
    (dotimes (index 3)
      (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                             :text (format "Text %d" index))
      ;; The running answer does not touch the footer.
      (should (string-match-p (format "Text %d\n\n" index) (buffer-string)))
      (edn-bridge-test-event
       conn "assistant/message" :session-id "s1" :role "assistant"
       :content (vector (list :type :text :text (format "Text %d" index))))
      (edn-bridge-test-event
       conn "tool/result" :session-id "s1" :tool-id (format "c%d" index)
       :tool-name "bash" :call-summary "ls" :is-error :false :result-text "x"))
    (let ((live (edn-bridge-test-transcript)))
      (should (equal live
                     (concat "Assistant\nText 0\n\n▸ bash     ls done\n\n"
                             "Text 1\n\n▸ bash     ls done\n\n"
                             "Text 2\n\n▸ bash     ls done\n")))
      ;; What the user says begins another turn.
      (edn-bridge-test-event conn "user/message" :session-id "s1" :role "user"
                             :entry-id "e9"
                             :content [(:type :text :text "More")])
      (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Yes")
      (should (string-suffix-p "\n\nAssistant\nYes" (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-heading-stands-once-a-turn-over-pages ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1" :more t
     :messages [(:id "e3" :role "assistant" :content [(:type :text :text "Two.")])])
    (edn-bridge-messages-show-earlier)
    (edn-bridge-test-answer
     conn sent "get_messages" :more :false
     :messages [(:id "e1" :role "user" :content [(:type :text :text "Go")])
                (:id "e2" :role "assistant" :content [(:type :text :text "One.")])])
    (should (equal (edn-bridge-test-transcript)
                   "You\nGo\n\nAssistant\nOne.\n\nTwo.\n"))))

(provide 'edn-bridge-screens-tests)

;;; edn-bridge-screens-tests.el ends here
